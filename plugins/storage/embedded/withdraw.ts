/**
 * Moves or ends a line that nobody has leased. While the commit runs, the line is leased to nobody: no claim and no page
 * that is read meanwhile can give it to a node.
 */
import type { Due } from "../../../core/model/delivery.ts";
import type { Change, Queue } from "../../../core/ports/storage.ts";
import { leaveInStorage, type QueueLine, type SubscriptionQueue } from "./subscription-queue.ts";
import type { Timeline } from "./timeline.ts";
import type { Window } from "./window.ts";

export function createWithdraw(deps: {
  readonly commit: (changes: readonly Change[]) => Promise<void>;
  readonly window: Window;
  readonly time: Timeline;
  /** Leases the line to nobody. @returns the token */
  readonly block: (line: QueueLine) => string;
  /** Ends that lease: the line is gone from the queue. */
  readonly unblock: (queue: SubscriptionQueue, line: QueueLine) => void;
  readonly add: (due: Due) => void;
}): Queue["withdraw"] {
  const { commit, window, time, block, unblock, add } = deps;

  return async (due, changes, next) => {
    const queue = window.queueOf(due.subscriptionId);
    const known = queue.lines.get(due.ordinal);
    if (known?.token !== undefined) return false;
    if (known !== undefined) window.take(queue, known);
    const line: QueueLine = known ?? { due, at: time.at(due), token: undefined, settling: false };
    queue.lines.set(due.ordinal, line);
    const token = block(line);
    queue.settling++;
    let done = false;
    try {
      await commit(changes);
      done = true;
    } finally {
      queue.settling--;
      if (queue.settling === 0) for (const resolve of queue.settled.splice(0)) resolve();
      // Otherwise its subscription was cancelled meanwhile, and the queue has forgotten all of it.
      if (line.token === token) {
        unblock(queue, line);
        if (done && next !== undefined) add(next);
        else if (!done && known !== undefined) window.hold(queue, known.due, known.at);
        else if (!done) leaveInStorage(queue, due);
        window.touch(queue);
      }
    }
    return true;
  };
}
