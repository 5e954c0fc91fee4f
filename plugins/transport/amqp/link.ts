/** One connection to RabbitMQ that is opened again for as long as the relay runs. */
import type { ChannelModel, connect as amqpConnect } from "amqplib";
import { within } from "../../../core/lib/within.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { LinkNews } from "../buses/link-news.ts";
import { Exchanges } from "./exchanges.ts";

const CONNECT_MS = 5_000;
/** Wait between attempts to connect, ms, at first and at last. */
const AGAIN_MS = 500;
const AGAIN_MOST_MS = 2_000;
/** Two missed ones, and the connection is lost. */
const HEARTBEAT_SECONDS = "10";
/** A goodbye takes no longer than this, ms. */
const CLOSE_MS = 1_000;

interface AmqpLinkDeps {
  readonly connect: typeof amqpConnect;
  readonly url: string;
  readonly tls: object | undefined;
  readonly clock: Clock;
  /** Called when what is under way is unknown: the connection is lost, or the broker takes nothing. */
  readonly lost: () => void;
  /** Called when the broker takes no messages until further notice; `undefined`: it takes them again. */
  readonly blocked: (why: string | undefined) => void;
  readonly news: LinkNews;
}

export class AmqpLink {
  readonly #deps: AmqpLinkDeps;
  readonly #end = new AbortController();
  #connection: ChannelModel | undefined;
  #exchanges: Exchanges | undefined;
  #blocked = false;

  constructor(deps: AmqpLinkDeps) {
    this.#deps = deps;
    void this.#run();
  }

  /** Where to publish; `undefined` while there is no connection. */
  get exchanges(): Exchanges | undefined {
    return this.#exchanges;
  }

  /** Whether the broker takes no messages, short of memory or disk. */
  get blocked(): boolean {
    return this.#blocked;
  }

  async close(): Promise<void> {
    this.#end.abort();
    this.#exchanges = undefined;
    const connection = this.#connection;
    if (connection !== undefined) await this.#hangUp(connection);
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { connect, clock, tls } = this.#deps;
    const url = new URL(this.#deps.url);
    if (!url.searchParams.has("heartbeat")) url.searchParams.set("heartbeat", HEARTBEAT_SECONDS);
    const how = { ...tls, timeout: CONNECT_MS, noDelay: true, clientProperties: { connection_name: "relaybox" } };
    for (let wait = AGAIN_MS; !this.#end.signal.aborted; wait = Math.min(wait * 2, AGAIN_MOST_MS)) {
      try {
        const connection = await connect(url.href, how);
        wait = AGAIN_MS;
        await this.#hold(connection);
      } catch (error) {
        this.#say((error as Error).message);
      }
      this.#connection = this.#exchanges = undefined;
      this.#deps.lost();
      await clock.sleep(clock.now() + wait, this.#end.signal).catch(() => undefined);
    }
  }

  /** Resolves when the connection is closed. */
  async #hold(connection: ChannelModel): Promise<void> {
    const closed = Promise.withResolvers<void>();
    connection.on("error", (error) => this.#say(error.message));
    connection.on("close", (error) => {
      this.#say(error?.message ?? "RabbitMQ has closed the connection");
      closed.resolve();
    });
    connection.on("blocked", (why) => {
      this.#blocked = true;
      this.#deps.blocked(why);
      this.#deps.lost();
    });
    connection.on("unblocked", () => {
      this.#blocked = false;
      this.#deps.blocked(undefined);
    });
    if (this.#end.signal.aborted) return await this.#hangUp(connection);
    this.#blocked = false;
    this.#connection = connection;
    this.#exchanges = new Exchanges(connection);
    this.#deps.news.there();
    await closed.promise;
  }

  /** Closes a connection, whatever state it is in: a broker that does not answer would leave the socket open. */
  async #hangUp(connection: ChannelModel): Promise<void> {
    const closing = connection.close().catch(() => undefined);
    await within(this.#deps.clock, CLOSE_MS, closing);
    (connection.connection as { readonly stream?: { destroy(): void } }).stream?.destroy();
  }

  #say(why: string): void {
    if (!this.#end.signal.aborted) this.#deps.news.failed(why);
  }
}
