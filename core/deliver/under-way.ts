/** Runs the deliveries that are under way on this node, each in its slot, and gives back what it cannot finish. */
import { setMaxListeners } from "node:events";
import { countUp } from "../lib/bounded-map.ts";
import { StorageError } from "../model/errors.ts";
import { isFanoutQueue } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Lease, Queue } from "../ports/storage.ts";
import { persistAfter } from "../records/persist.ts";
import type { CachedEvent } from "./event-cache.ts";
import { nameOf } from "./own-faults.ts";
import type { Deliver } from "./run.ts";
import type { Slot } from "./slots.ts";

/** How long a delivery waits after a fault of ours, ms. */
const FAULT_REST_MS = 5_000;
/**
 * After so many times in a row that the storage was broken for it, a delivery waits for twice as long each time, up to the
 * longest, ms: its request may have gone out, and would be made every few seconds while its result can never be stored.
 */
const SHORT_RESTS = 5;
const LONGEST_REST_MS = 900_000;
/** Most deliveries of which that is counted. */
const BROKEN_HELD = 10_000;
/**
 * How long one turn of the event loop may begin deliveries, ms. Signing and sending a full batch takes many times as
 * long, and whatever else the loop has to do, such as reading another receiver's answer, would wait for all of it.
 */
const TURN_MS = 1;

/** The deliveries under way of one subscription share an abort signal: one for each attempt costs more than a hash. */
interface SubscriptionRuns {
  readonly abort: AbortController;
  running: number;
  /** Called when none of them runs any more. */
  readonly ended: (() => void)[];
}

interface Taken {
  readonly lease: Lease;
  readonly slot: Slot | number;
  readonly runs: SubscriptionRuns;
  readonly handed: CachedEvent | undefined;
}

export interface UnderWayDeps {
  readonly queue: Pick<Queue, "hold" | "release" | "renewal">;
  readonly deliver: Deliver;
  /** Like `deliver`, for the line of a fan-out. */
  readonly expand?: Deliver;
  readonly clock: Clock;
  readonly log: Log;
}

export class UnderWay {
  readonly #deps: UnderWayDeps;
  readonly #draining: AbortSignal;
  readonly #leases = new Set<Lease>();
  readonly #active = new Map<string, SubscriptionRuns>();
  /** How often in a row the storage was broken for a delivery, by its name. */
  readonly #broken = new Map<string, number>();
  readonly #waiting: Taken[] = [];
  /** Monotonic ms at which this turn of the event loop began its first delivery. */
  #since: number | undefined;

  /** @param draining aborts when waits must end */
  constructor(deps: UnderWayDeps, draining: AbortSignal) {
    this.#deps = deps;
    this.#draining = draining;
  }

  /** How many are under way, waits included. */
  get count(): number {
    return this.#leases.size;
  }

  /** True while some have not begun yet. */
  get waits(): boolean {
    return this.#waiting.length > 0;
  }

  /**
   * Takes a delivery over, so that stopping and aborting know it.
   * @param slot or for how long the queue holds back its subscription, ms, because it has none
   * @param handed its event, where it comes straight from its acceptance
   */
  take(lease: Lease, slot: Slot | number, handed?: CachedEvent): void {
    const { subscriptionId } = lease;
    let runs = this.#active.get(subscriptionId);
    if (runs === undefined) {
      runs = { abort: new AbortController(), running: 0, ended: [] };
      setMaxListeners(0, runs.abort.signal);
      this.#active.set(subscriptionId, runs);
    }
    this.#leases.add(lease);
    runs.running++;
    this.#waiting.push({ lease, slot, runs, handed });
  }

  /** Begins what was taken, at least one, in this turn of the event loop and as many of the next as it takes. */
  begin(): void {
    const [waiting, { clock }] = [this.#waiting, this.#deps];
    if (waiting.length === 0) return;
    const first = this.#since === undefined ? waiting.shift() : undefined;
    const began = (this.#since ??= clock.monotonic());
    if (first !== undefined) void this.#run(first);
    while (waiting.length > 0 && clock.monotonic() - began < TURN_MS) void this.#run(waiting.shift() as Taken);
    if (first === undefined) return;
    setImmediate(() => {
      this.#since = undefined;
      if (waiting.length > 0) this.begin();
    });
  }

  /** Runs the delivery. Never rejects. */
  async #run({ lease, slot, runs, handed }: Taken): Promise<void> {
    const { subscriptionId } = lease;
    const { signal } = runs.abort;
    const { deliver, expand = deliver } = this.#deps;
    try {
      if (typeof slot === "number") await this.#turnAway(lease, slot);
      else if (handed === undefined && isFanoutQueue(subscriptionId)) await expand(lease, slot, signal);
      else await deliver(lease, slot, signal, this.#draining, handed);
      if (this.#broken.size > 0) this.#broken.delete(nameOf(lease));
    } catch (error) {
      await this.#give(lease, signal.aborted ? undefined : this.#restAfter(error, lease));
    }
    this.#leases.delete(lease);
    if (--runs.running > 0) return;
    if (this.#active.get(subscriptionId) === runs) this.#active.delete(subscriptionId);
    for (const resolve of runs.ended.splice(0)) resolve();
  }

  /** Returns until when a delivery waits after this fault, epoch ms. */
  #restAfter(error: unknown, lease: Lease): number {
    const { clock, log } = this.#deps;
    const { subscriptionId, ordinal } = lease;
    const fault = error instanceof StorageError ? error.fault : String(error);
    log.error("a delivery went back to the queue", { subscriptionId, ordinal, error: fault });
    if (fault !== "broken") return clock.now() + FAULT_REST_MS;
    const count = countUp(this.#broken, nameOf(lease), BROKEN_HELD);
    return clock.now() + Math.min(FAULT_REST_MS * 2 ** Math.max(0, count - SHORT_RESTS), LONGEST_REST_MS);
  }

  /** Gives back a delivery that has no slot now, unchanged. Never rejects. */
  async #turnAway(lease: Lease, holdMs: number): Promise<void> {
    const { queue, log } = this.#deps;
    const { subscriptionId } = lease;
    const holding = holdMs > 0 ? queue.hold(subscriptionId, holdMs) : undefined;
    await holding?.catch((error: unknown) =>
      log.warn("a subscription could not be held back in the queue", { subscriptionId, error: String(error) }),
    );
    await this.#give(lease);
  }

  /** Gives a lease back, due at `dueAt` (absent: as before), later where the queue cannot now. Never rejects. */
  async #give(lease: Lease, dueAt?: number): Promise<void> {
    const { queue, log } = this.#deps;
    const release = (): Promise<void> => queue.release(lease, dueAt);
    await release().catch((error: unknown) => {
      log.warn("a lease could not be given back", { subscriptionId: lease.subscriptionId, error: String(error) });
      // Storage still has the line: if this fails too, the lease lapses, or the next start finds it.
      persistAfter(error, release, this.#draining, this.#deps).catch(() => undefined);
    });
  }

  /** Renews the leases from time to time, until the signal aborts. Returns at once where they last as long as the process. */
  async renew(signal: AbortSignal): Promise<void> {
    const { queue, clock, log } = this.#deps;
    for (const { renewal } = queue; renewal !== undefined;) {
      await clock.sleep(clock.now() + renewal.everyMs, signal);
      // The next round tries again, before the leases lapse.
      const warn = (error: unknown): void => log.warn("leases could not be renewed", { error: String(error) });
      if (this.count > 0) await renewal.renew(this.#leases).catch(warn);
    }
  }

  /** Aborts this node's attempts of a subscription, and resolves when they have ended. */
  async abort(subscriptionId: string): Promise<void> {
    const runs = this.#active.get(subscriptionId);
    if (runs === undefined) return;
    this.#active.delete(subscriptionId);
    runs.abort.abort(new Error("the delivery was aborted"));
    await ended(runs);
  }

  /** Resolves when nothing that is under way now is any more. */
  drained(): Promise<unknown> {
    return Promise.all([...this.#active.values()].map(ended));
  }

  /** Aborts everything, and resolves when it has ended. */
  abortAll(): Promise<unknown> {
    return Promise.all([...this.#active.keys()].map((id) => this.abort(id)));
  }
}

const ended = (runs: SubscriptionRuns): Promise<void> =>
  runs.running === 0 ? Promise.resolve() : new Promise((resolve) => void runs.ended.push(resolve));
