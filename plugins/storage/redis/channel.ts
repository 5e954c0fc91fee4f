/** Receives notifications from other nodes: changed keys, and that something is due. The epoch reveals missed messages. */
import { every } from "../../../core/lib/every.ts";
import { StorageError } from "../../../core/model/errors.ts";
import { CONTROL, SUBSCRIPTION } from "../../../core/model/schema.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import { Watchers } from "../embedded/watch.ts";
import type { Message } from "../shared/questions.ts";
import type { Calls } from "./calls.ts";
import type { Client } from "./connect.ts";
import { NO_EPOCH, type NodesOnRedis } from "./nodes.ts";

/** How often the subscribing connection is tested, ms. */
const ALIVE_MS = 1_000;
/** Bare prefixes of the watched keys: any key with them may have changed. */
const EVERYTHING = [SUBSCRIPTION.start, CONTROL.start];

/** An epoch is a number that grows by one, and the id of its commit: the number alone does not name the data. */
const numberOf = (epoch: string): number => Number.parseInt(epoch, 10) || 0;

interface Connected {
  /** The connection that listens, not connected yet. Its maker closes it. */
  readonly client: Client;
  readonly tag: string;
  readonly clock: Clock;
  readonly calls: Pick<Calls, "ask">;
  readonly nodes: Pick<NodesOnRedis, "alive" | "heard">;
  /** Called with how soon something may be due. */
  readonly wake: (inMs: number) => void;
  readonly ended: AbortSignal;
}

export class Channel {
  readonly #log: Pick<Log, "error" | "info">;
  readonly #watchers = new Watchers();
  #epoch = "";
  #listening = false;
  /** Redis has lost all records of this relay. */
  #emptied = false;

  constructor(log: Pick<Log, "error" | "info">) {
    this.#log = log;
  }

  /** Everything up to this epoch has been passed on here. */
  get epoch(): string {
    return this.#epoch;
  }

  /** True while messages arrive. */
  get listening(): boolean {
    return this.#listening;
  }

  watch(changed: (keys: readonly string[]) => void): () => void {
    return this.#watchers.watch(changed);
  }

  /** Connects and listens from now on. */
  async listen({ client, tag, clock, calls, nodes, wake, ended }: Connected): Promise<void> {
    client.on("message", (name: string, message: string) => {
      if (name === `${tag}:wake`) wake(Number(message));
      else this.#hear(name === `${tag}:changed`, message, nodes);
    });
    client.on("close", () => {
      this.#listening = false;
    });
    const subscribe = async (): Promise<void> => {
      await client.subscribe(`${tag}:wake`, `${tag}:changed`, `${tag}:words`);
      this.#listening = true;
      // Messages sent while nobody listened are lost.
      this.missed();
      wake(0);
    };
    await client.connect();
    await subscribe();
    this.#epoch = await nodes.alive();
    // It fails only briefly: a connection that cannot subscribe does not answer the next test either, and is replaced.
    client.on("ready", () => void subscribe().catch(() => {}));

    // A connection behind a black hole looks open for minutes; one that does not answer is dropped by its own timeout.
    const stayAlive = async (): Promise<void> => {
      await calls.ask(() => client.ping(), { repeatable: false }).catch(() => {});
      // In a cluster the client renews its subscription silently: the epoch shows what was missed meanwhile.
      await nodes.alive().then(
        (epoch) => this.atEpoch(epoch),
        () => {},
      );
    };
    every(clock, ALIVE_MS, stayAlive, ended).catch(() => {});
  }

  #hear(changed: boolean, message: string, nodes: Pick<NodesOnRedis, "heard">): void {
    const [from = "", to = "", ...rest] = message.split(" ");
    try {
      if (changed) return this.#advance(from, to, JSON.parse(rest.join(" ")) as string[]);
      // The sender has committed before: learn first what was missed of that.
      if (from !== NO_EPOCH && numberOf(from) >= numberOf(this.#epoch)) this.atEpoch(from);
      nodes.heard(JSON.parse(message.slice(from.length + 1)) as Message);
    } catch {
      this.missed();
    }
  }

  /** Notes that a commit of this process touched these keys and made this epoch from the one before, as far as that is known. */
  own(to: string | undefined, before: string | undefined, keys: readonly string[]): void {
    if (to !== undefined && before !== undefined) return this.#advance(before, to, keys);
    if (to !== undefined) this.atEpoch(to);
    this.#watchers.notify(keys);
  }

  /** Notes at which epoch Redis is: watchers that missed something are notified before this returns. */
  atEpoch(to: string): void {
    // A Redis that lost data is at another epoch, whatever its number.
    if (numberOf(to) === 0 && numberOf(this.#epoch) > 0) {
      if (!this.#emptied)
        this.#log.error("Redis has lost all records: restore them, or restart every node to begin with none");
      this.#emptied = true;
      return;
    }
    if (to === this.#epoch && !this.#emptied) return;
    this.#goOn(to);
    this.missed();
  }

  /** Notifies watchers that anything may have changed. */
  missed(): void {
    this.#watchers.notify(EVERYTHING);
  }

  /**
   * Fails while Redis has lost all records of this relay. The subscriptions are missing too, so an event would be accepted
   * without deliveries: none is accepted until Redis has records again or the node is restarted.
   * @throws StorageError unavailable
   */
  checkRecords(): void {
    if (this.#emptied) throw new StorageError("unavailable", "Redis has lost all records");
  }

  /** The epoch that follows ours brings only its own keys; any other means that messages were missed. */
  #advance(from: string, to: string, keys: readonly string[]): void {
    if (to === this.#epoch) return;
    if (from === this.#epoch) this.#goOn(to);
    else if (numberOf(to) >= numberOf(this.#epoch)) {
      this.#goOn(to);
      this.missed();
    }
    // It came late, or from a Redis that counts from the beginning again: the next reading of the epoch shows which.
    this.#watchers.notify(keys);
  }

  #goOn(from: string): void {
    if (this.#emptied) this.#log.info("Redis has records again");
    this.#emptied = false;
    this.#epoch = from;
  }
}
