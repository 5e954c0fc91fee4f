/**
 * Moves or ends a line that nobody has leased. While the commit runs, the line is leased to nobody: no claim and no page
 * that is read meanwhile can give it to a node.
 */
import type { Due } from "../../../core/model/delivery.ts";
import type { Lease, Queue } from "../../../core/ports/storage.ts";
import { type CommitOf, leaveInStorage, newLine, type QueueLine } from "./subscription-queue.ts";
import type { Timeline } from "./timeline.ts";
import type { Window } from "./window.ts";

export function createWithdraw(deps: {
  readonly commit: CommitOf;
  readonly window: Window;
  readonly time: Timeline;
  readonly lend: (line: QueueLine) => Lease;
  /** Ends the lease: the line is gone from the queue. */
  readonly end: (line: QueueLine) => void;
  readonly add: (due: Due) => void;
}): Queue["withdraw"] {
  const { commit, window, time, lend, end, add } = deps;

  return async (due, changes, next) => {
    const queue = window.queueOf(due.subscriptionId);
    const known = queue.lines.get(due.ordinal);
    if (known?.token !== undefined) return false;
    if (known !== undefined) window.take(known);
    const line = known ?? newLine(queue, due, time.at(due));
    queue.lines.set(due.ordinal, line);
    const { token } = lend(line);
    let done = false;
    try {
      await commit(queue, changes, false);
      done = true;
    } finally {
      // Otherwise its subscription was cancelled meanwhile, and the queue has forgotten all of it.
      if (line.token === token) {
        end(line);
        if (done && next !== undefined) add(next);
        else if (!done && known !== undefined) window.hold(queue, known.due, known.at);
        else if (!done) leaveInStorage(queue, due);
        window.touch(queue);
      }
    }
    return true;
  };
}
