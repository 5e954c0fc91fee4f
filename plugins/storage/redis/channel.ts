/** Receives notifications from other nodes: changed keys, and that something is due. The epoch reveals missed messages. */
import { every } from "../../../core/lib/every.ts";
import { StorageError } from "../../../core/model/errors.ts";
import { CONTROL, SUBSCRIPTION } from "../../../core/model/schema.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import type { Calls } from "./calls.ts";
import type { Client } from "./connect.ts";
import { type Message, NO_EPOCH, type NodesOnRedis } from "./nodes.ts";

/** How often the subscribing connection is tested, ms. */
const ALIVE_MS = 1_000;
/** Bare prefixes of the watched keys: any key with them may have changed. */
const EVERYTHING = [SUBSCRIPTION.start, CONTROL.start];

/**
 * An epoch is a number that grows by one, and the id of the commit that made it: two epochs with one number are of
 * different data.
 */
const numberOf = (epoch: string): number => Number.parseInt(epoch, 10) || 0;

export interface Channel {
  watch(changed: (keys: readonly string[]) => void): () => void;
  /** A commit of this process touched these keys and made this epoch from the one before, as far as that is known. */
  own(epoch: string | undefined, before: string | undefined, keys: readonly string[]): void;
  /** Redis is at this epoch: watchers that missed something are notified before this returns. */
  atEpoch(epoch: string): void;
  /** Anything may have changed without a notification. */
  missed(): void;
  /**
   * Fails while Redis has lost all records of this relay. The subscriptions are missing too, so an event would be accepted
   * without deliveries: none is accepted until Redis has records again or the node is restarted.
   * @throws StorageError unavailable
   */
  checkRecords(): void;
  /** Everything up to this epoch has been passed on here. */
  readonly epoch: string;
  /** True while messages arrive. */
  readonly listening: boolean;
}

/**
 * @param make makes the connection that listens, which its maker closes
 */
export async function channel(
  make: () => Client,
  tag: string,
  clock: Clock,
  calls: Pick<Calls, "ask">,
  { alive, heard }: Pick<NodesOnRedis, "alive" | "heard">,
  wake: (inMs: number) => void,
  log: Pick<Log, "error" | "info">,
  ended: AbortSignal,
): Promise<Channel> {
  const listeners = new Set<(keys: readonly string[]) => void>();
  let epoch = "";
  let listening = false;
  let emptied = false;

  const notify = (keys: readonly string[]): void => {
    for (const listener of [...listeners]) listener(keys);
  };

  function goOn(from: string): void {
    if (emptied) log.info("Redis has records again");
    emptied = false;
    epoch = from;
  }

  /** The epoch that follows ours brings only its own keys; any other means that messages were missed. */
  function advance(from: string, to: string, keys: readonly string[]): void {
    if (to === epoch) return;
    if (from === epoch) goOn(to);
    else if (numberOf(to) >= numberOf(epoch)) {
      goOn(to);
      notify(EVERYTHING);
    }
    // It came late, or from a Redis that counts from the beginning again: the next reading of the epoch shows which.
    notify(keys);
  }

  /** A Redis that lost data is at another epoch, whatever its number. */
  function atEpoch(to: string): void {
    if (numberOf(to) === 0 && numberOf(epoch) > 0) {
      if (!emptied) log.error("Redis has lost all records: restore them, or restart every node to begin with none");
      emptied = true;
      return;
    }
    if (to === epoch && !emptied) return;
    goOn(to);
    notify(EVERYTHING);
  }

  const client = make();
  client.on("message", (name: string, message: string) => {
    if (name === `${tag}:wake`) return wake(Number(message));
    const [from = "", to = "", ...rest] = message.split(" ");
    try {
      if (name === `${tag}:changed`) return advance(from, to, JSON.parse(rest.join(" ")) as string[]);
      // The sender has committed before: learn first what was missed of that.
      if (from !== NO_EPOCH && numberOf(from) >= numberOf(epoch)) atEpoch(from);
      heard(JSON.parse(message.slice(from.length + 1)) as Message);
    } catch {
      notify(EVERYTHING);
    }
  });
  client.on("close", () => {
    listening = false;
  });
  const listen = async (): Promise<void> => {
    await client.subscribe(`${tag}:wake`, `${tag}:changed`, `${tag}:words`);
    listening = true;
    // Messages sent while nobody listened are lost.
    notify(EVERYTHING);
    wake(0);
  };
  await client.connect();
  await listen();
  epoch = await alive();
  // It fails only briefly: a connection that cannot subscribe does not answer the next test either, and is replaced.
  client.on("ready", () => void listen().catch(() => {}));

  /** A connection behind a black hole looks open for minutes; one that does not answer is dropped by its own timeout. */
  async function stayAlive(): Promise<void> {
    await calls.ask(() => client.ping(), { repeatable: false }).catch(() => {});
    // In a cluster the client renews its subscription silently: the epoch shows what was missed meanwhile.
    await alive().then(atEpoch, () => {});
  }
  every(clock, ALIVE_MS, stayAlive, ended).catch(() => {});

  return {
    watch(changed) {
      const listener = (keys: readonly string[]): void => changed(keys);
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    own(to, before, keys) {
      if (to !== undefined && before !== undefined) return advance(before, to, keys);
      if (to !== undefined) atEpoch(to);
      notify(keys);
    },
    atEpoch,
    missed: () => notify(EVERYTHING),
    checkRecords() {
      if (emptied) throw new StorageError("unavailable", "Redis has lost all records");
    },
    get epoch() {
      return epoch;
    },
    get listening() {
      return listening;
    },
  };
}
