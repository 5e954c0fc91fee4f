/** Wakes the claims: it signals when a claim may find something, and sets a timer for the next due time. */
import { Waiters } from "../../../core/lib/waiters.ts";
import { Heap } from "./binary-heap.ts";
import type { SubscriptionQueue } from "./subscription-queue.ts";
import type { Timeline } from "./timeline.ts";

export class WakeTimer {
  readonly times = new Heap<SubscriptionQueue>();
  readonly #time: Timeline;
  readonly #due: (queue: SubscriptionQueue) => void;
  readonly #waiters = new Waiters();
  #notified = false;
  #closed = false;
  /** The only sleep under way. */
  #sleep: { readonly at: number; readonly stop: AbortController } | undefined;

  /** @param due called for a subscription queue whose time has come */
  constructor(time: Timeline, due: (queue: SubscriptionQueue) => void) {
    this.#time = time;
    this.#due = due;
  }

  /** Has `due` called with the subscription queue at that time, or soon after, unless it is called sooner. */
  set(at: number, queue: SubscriptionQueue): void {
    if (at >= (queue.timers.at(-1) ?? Number.POSITIVE_INFINITY)) return;
    queue.timers.push(at);
    this.times.push(at, queue);
    this.#arm();
  }

  #arm(): void {
    const at = this.times.peek();
    if (this.#closed || at === undefined || (this.#sleep !== undefined && this.#sleep.at <= at)) return;
    this.#sleep?.stop.abort();
    const own = { at, stop: new AbortController() };
    this.#sleep = own;
    const wakeUp = (): void => {
      if (this.#sleep !== own) return;
      this.#sleep = undefined;
      this.check(this.#time.now());
      this.#arm();
    };
    this.#time.sleep(at, own.stop.signal).then(wakeUp, () => {});
  }

  /** Calls `due` for every subscription queue whose time has come. */
  check(now: number): void {
    const { times } = this;
    let at = times.peek();
    if (at === undefined || at > now) return;
    const queues = new Set<SubscriptionQueue>();
    for (; at !== undefined && at <= now; at = times.peek()) {
      const queue = times.pop() as SubscriptionQueue;
      queue.timers.pop();
      queues.add(queue);
    }
    // Only after that, because a queue may be set again for the same time.
    for (const queue of queues) this.#due(queue);
  }

  /** Signals that something may be claimed: ends every wait, and the next one until a claim begins. */
  notify(): void {
    this.#notified = true;
    this.#waiters.wake();
  }

  /** Notes that a claim begins. */
  reset(): void {
    this.#notified = false;
  }

  wait(signal: AbortSignal): Promise<void> {
    return this.#notified || this.#closed ? Promise.resolve() : this.#waiters.wait(signal);
  }

  close(): void {
    this.#closed = true;
    this.#sleep?.stop.abort();
    this.notify();
  }
}
