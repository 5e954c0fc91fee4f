/** One connection to NATS that is opened again for as long as the relay runs. The client does so by itself, but for a refused login. */
import type { ConnectionOptions, NatsConnection } from "@nats-io/transport-node";
import { within } from "../../../core/lib/within.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { LinkNews } from "../buses/link-news.ts";

/** Wait between attempts to connect, ms. */
const AGAIN_MS = 500;
const CONNECT_MS = 5_000;
/** A server that answers none of two pings, sent so far apart, is taken for lost, ms. */
const PING_MS = 5_000;
/** A goodbye takes no longer than this, ms. */
const CLOSE_MS = 1_000;

interface NatsLinkDeps {
  readonly connect: (options: ConnectionOptions) => Promise<NatsConnection>;
  readonly options: ConnectionOptions;
  readonly clock: Clock;
  /** Called with each connection that is made, before anything is sent on it. */
  readonly connected: (connection: NatsConnection) => void;
  /** Called when it is lost: what was under way is unknown. */
  readonly lost: () => void;
  readonly news: LinkNews;
}

export class NatsLink {
  readonly #deps: NatsLinkDeps;
  readonly #end = new AbortController();
  #connection: NatsConnection | undefined;
  #up = false;

  constructor(deps: NatsLinkDeps) {
    this.#deps = deps;
    void this.#run();
  }

  /** Whether something can be sent now. */
  get up(): boolean {
    return this.#up;
  }

  async close(): Promise<void> {
    this.#end.abort();
    this.#up = false;
    const closing = this.#connection?.close().catch(() => undefined);
    if (closing !== undefined) await within(this.#deps.clock, CLOSE_MS, closing);
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { connect, options, clock } = this.#deps;
    while (!this.#end.signal.aborted) {
      try {
        await this.#hold(
          await connect({
            name: "relay",
            ...options,
            timeout: CONNECT_MS,
            maxReconnectAttempts: -1,
            reconnectTimeWait: AGAIN_MS,
            pingInterval: PING_MS,
            maxPingOut: 2,
            noAsyncTraces: true,
          }),
        );
      } catch (error) {
        this.#say(String(error));
      }
      this.#down();
      await clock.sleep(clock.now() + AGAIN_MS, this.#end.signal).catch(() => undefined);
    }
  }

  /** Resolves when the connection is closed for good. */
  async #hold(connection: NatsConnection): Promise<void> {
    if (this.#end.signal.aborted) return await connection.close();
    this.#connection = connection;
    this.#deps.connected(connection);
    this.#there();
    for await (const { type, ...more } of connection.status()) {
      if (type === "disconnect") {
        this.#say("it was lost");
        this.#down();
      }
      if (type === "reconnect") this.#there();
      if (type === "error") this.#say(String((more as { error?: unknown }).error));
    }
    const why = await connection.closed();
    if (why instanceof Error) this.#say(String(why));
  }

  #there(): void {
    this.#up = true;
    this.#deps.news.there();
  }

  #down(): void {
    this.#up = false;
    this.#deps.lost();
  }

  #say(why: string): void {
    if (!this.#end.signal.aborted) this.#deps.news.failed(why);
  }
}
