/** Wakes the claims: it signals when a claim may find something, and sets a timer for the next due time. */
import { Waiters } from "../../../core/lib/waiters.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { heap, type Heap } from "./binary-heap.ts";
import type { SubscriptionQueue } from "./subscription-queue.ts";
import type { Timeline } from "./timeline.ts";

export type WakeTimer = ReturnType<typeof wakeTimer>;

export function wakeTimer(
  clock: Pick<Clock, "sleep">,
  time: Timeline,
  due: (queue: SubscriptionQueue) => void,
  times: Heap<SubscriptionQueue> = heap(),
) {
  const waiters = new Waiters();
  let notified = false;
  let closed = false;
  /** The only sleep under way. */
  let sleep: { readonly at: number; readonly stop: AbortController } | undefined;

  function arm(): void {
    const at = times.peek();
    if (closed || at === undefined || (sleep !== undefined && sleep.at <= at)) return;
    sleep?.stop.abort();
    const own = { at, stop: new AbortController() };
    sleep = own;
    clock.sleep(time.wall(at), own.stop.signal).then(
      () => {
        if (sleep !== own) return;
        sleep = undefined;
        look(time.now());
        arm();
      },
      () => {},
    );
  }

  /** Calls `due` for every subscription queue whose time has come. */
  function look(now: number): void {
    let at = times.peek();
    if (at === undefined || at > now) return;
    const queues = new Set<SubscriptionQueue>();
    for (; at !== undefined && at <= now; at = times.peek()) {
      const queue = times.pop() as SubscriptionQueue;
      queue.timers.pop();
      queues.add(queue);
    }
    // Only after that, because a queue may be set again for the same time.
    for (const queue of queues) due(queue);
  }

  /** Signals that something may be claimed: ends every wait, and the next one until a claim begins. */
  function notify(): void {
    notified = true;
    waiters.wake();
  }

  return {
    look,
    notify,
    /** Has `due` called with the subscription queue at that time (the queue's), or soon after, unless it is called sooner. */
    set(at: number, queue: SubscriptionQueue): void {
      if (at >= (queue.timers.at(-1) ?? Number.POSITIVE_INFINITY)) return;
      queue.timers.push(at);
      times.push(at, queue);
      arm();
    },
    /** A claim begins now. */
    reset(): void {
      notified = false;
    },
    wait(signal: AbortSignal): Promise<void> {
      return notified || closed ? Promise.resolve() : waiters.wait(signal);
    },
    close(): void {
      closed = true;
      sleep?.stop.abort();
      notify();
    },
  };
}
