/** A storage that another thread of this process holds: the storage port over a message port, for one node. */
import { DUE, EVENT } from "../../model/schema.ts";
import {
  type Change,
  type Durability,
  type Lease,
  type RangeOptions,
  type Storage,
  type StorageReads,
} from "../../ports/storage.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Take, WindowResult } from "../../model/windows.ts";
import { flat, unflat, type FlatChanges } from "./flat-changes.ts";
import { createLink, type LinkPort } from "./link.ts";
import { queueClient } from "./queue-client.ts";
import { BEAT_MS } from "./node-thread.ts";
import type { CommitCall, OptionalCall, StorageFacts } from "./storage-calls.ts";

/** An event whose deliveries were fanned out by what this node knows of subscriptions. */
const isNewEvent = (change: Change): boolean => change.op === "put" && change.if === null && EVENT.has(change.key);

/** A due line that is written; the other side adds those of new events to the queue. */
const isLine = ({ op, key }: Change): boolean => op === "put" && DUE.has(key);

/**
 * Opens the storage that the other side of `port` serves.
 * @param reads where this thread can read without the other one
 */
export async function openStorageClient(port: LinkPort, clock: Clock, reads?: StorageReads): Promise<Storage> {
  const watchers = new Set<(keys: readonly string[]) => void>();
  const actors = new Set<(message: string) => Promise<unknown>>();
  const taps = new Map<number, (changes: readonly Change[], certain: boolean) => void>();
  const closing = new AbortController();
  const underWay = new Set<Promise<unknown>>();
  let epoch = 0;
  let durability: Durability = "volatile";
  let tapIds = 0;
  let disposed: Promise<void> | undefined;

  function changed(keys: readonly string[]): void {
    for (const watcher of [...watchers]) {
      try {
        watcher(keys);
      } catch (error) {
        // The commit has happened, even if a watcher fails.
        process.emitWarning(error instanceof Error ? error : String(error));
      }
    }
  }

  const pushed: Readonly<Record<string, (...args: never[]) => unknown>> = {
    changed(keys: readonly string[], now: number) {
      epoch = now;
      changed(keys);
    },
    act: async (message: string): Promise<boolean> => {
      const all = await Promise.allSettled([...actors].map((act) => act(message)));
      return all.every(({ status }) => status === "fulfilled");
    },
    tapped: (id: number, changes: FlatChanges, certain: boolean) => taps.get(id)?.(unflat(changes), certain),
    beat: (now: Durability) => void (durability = now),
    wake: () => queue.wakeUp(),
    given: (leases: readonly Lease[]) => queue.given(leases),
    cancelled: (subscriptionId: string) => queue.cancelled(subscriptionId),
  };
  let heardAt = clock.monotonic();
  const link = createLink(
    port,
    (method, args) => pushed[method]?.(...(args as never[])),
    () => (heardAt = clock.monotonic()),
  );
  const queue = queueClient({ link, clock, heardAt: () => heardAt });
  const facts = await link.call<StorageFacts>("facts", [], (now) => (epoch = now.epoch));
  ({ durability } = facts);

  /** Gives a sign of life, and gets one, so that the other side knows a thread that hangs, and this one that it hung. */
  async function beat(): Promise<void> {
    for (;;) {
      await clock.sleep(clock.now() + BEAT_MS, closing.signal);
      link.send("beat");
    }
  }
  beat().catch(() => undefined);

  /** Counts a commit among those that a dispose waits for. */
  function track<T>(work: Promise<T>): Promise<T> {
    underWay.add(work);
    const over = (): void => void underWay.delete(work);
    work.then(over, over);
    return work;
  }

  const plain =
    <T>(method: string) =>
    (...args: readonly unknown[]): Promise<T> =>
      link.call<T>(method, args);
  const optional = <T>(name: OptionalCall): { readonly [K in OptionalCall]?: () => Promise<T> } =>
    facts.has.includes(name) ? { [name]: plain<T>(name) } : {};

  const getMany: Storage["getMany"] = reads?.getMany ?? ((keys) => link.call("getMany", [keys]));
  const range: Storage["range"] =
    reads?.range ?? ((prefix: string, options?: RangeOptions) => link.call("range", [prefix, options]));

  async function dispose(): Promise<void> {
    await Promise.allSettled(underWay);
    closing.abort(new Error("closed"));
    queue.close();
    watchers.clear();
    // What was sent before this, without an answer, has arrived when this is answered.
    await link.call("answers", [false]).catch(() => undefined);
    link.end();
    reads?.close();
  }

  return {
    name: facts.name,
    get durability() {
      return durability;
    },
    setItem: (...args) => track(plain<void>("setItem")(...args)),
    setItems: (...args) => track(plain<void>("setItems")(...args)),
    removeItem: (...args) => track(plain<void>("removeItem")(...args)),
    clear: plain<void>("clear"),
    getMany,
    range,
    async hasItem(key) {
      return (await getMany([key]))[0] !== undefined;
    },
    getItem: async (key) => (await getMany([key]))[0],
    getItems: plain<{ key: string; value: string | null }[]>("getItems"),
    getKeys: plain<string[]>("getKeys"),
    commit(changes) {
      if (!changes.some(isNewEvent)) return track(link.call<void>("commit", [flat(changes), undefined]));
      const call: CommitCall = [flat(changes), epoch];
      const added = (): void => queue.added(changes.filter(isLine).map(({ key }) => key));
      return track(link.call<void>("commit", call, added));
    },
    watch(listener) {
      // A new function for each call, so that the same listener may watch twice.
      const own = (keys: readonly string[]): void => listener(keys);
      watchers.add(own);
      return () => void watchers.delete(own);
    },
    ...(facts.has.includes("tap") && {
      tap(committed: (changes: readonly Change[], certain: boolean) => void) {
        const id = ++tapIds;
        taps.set(id, committed);
        link.send("tap", id);
        return () => {
          taps.delete(id);
          link.send("untap", id);
        };
      },
    }),
    queue: queue.port,
    counters: {
      take: (takes: readonly Take[]) => link.call<readonly WindowResult[]>("take", [takes]),
      giveBack: (takes: readonly Take[], taken: readonly WindowResult[]) => link.call<void>("giveBack", [takes, taken]),
      // There in every thread, as each stores the suspensions that it begins.
      ...(facts.suspends && { restore: (...args) => void (facts.restores && link.send("restore", ...args)) }),
    },
    nodes: {
      ask: (message, wait) => link.call<boolean>("ask", [message, wait]),
      answer(act) {
        actors.add(act);
        link.send("answers", true);
        return () => {
          actors.delete(act);
          if (actors.size === 0) link.send("answers", false);
        };
      },
    },
    status: plain("status"),
    ...optional("room"),
    ...optional("time"),
    ...optional("verify"),
    dispose: () => (disposed ??= dispose()),
  } as Storage;
}
