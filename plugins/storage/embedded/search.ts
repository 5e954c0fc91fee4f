/**
 * Finds stored lines with impossible times: a clock that was ahead wrote them, so they sort after lines that are due later.
 * Every subscription queue is searched once, and again after each step of the wall clock.
 */
import type { Due } from "../../../core/model/delivery.ts";
import { DUE } from "../../../core/model/schema.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";
import type { SubscriptionQueue } from "./subscription-queue.ts";
import type { Timeline } from "./timeline.ts";
import type { Window } from "./window.ts";

/** Lines read at once. */
const PAGE = 250;

export function createSearch(deps: {
  readonly read: <T>(prefix: string, options: RangeOptions, use: (page: readonly Entry[]) => T) => Promise<T>;
  /** Returns the line of an entry, if the queue does not hold it. */
  readonly news: (entry: Entry) => Due | undefined;
  readonly clock: Pick<Clock, "now">;
  readonly time: Timeline;
  readonly window: Pick<Window, "queues" | "hold" | "touch">;
}) {
  const { read, news, clock, time, window } = deps;
  let steps = 0;

  return {
    /** Begins anew everywhere if the wall clock was set: what is stored is due at another time then. */
    look(): void {
      time.now();
      if (time.steps() === steps) return;
      steps = time.steps();
      for (const queue of window.queues.values()) {
        [queue.search, queue.searchAt] = [undefined, 0];
        window.touch(queue);
      }
    },
    /** Reads a page, if it is time for one, and holds what it finds. @returns whether it was */
    async readPage(queue: SubscriptionQueue): Promise<boolean> {
      if (queue.search === undefined) {
        if (queue.searchAt > time.now()) return false;
        // Whatever is due is found without it.
        queue.search = DUE.key({ subscriptionId: queue.id, dueAt: clock.now(), ordinal: "" });
        queue.searchAt = Number.POSITIVE_INFINITY;
      }
      const after = queue.search;
      await read(DUE.under({ subscriptionId: queue.id }), { after, limit: PAGE }, (page) => {
        if (queue.search !== after) return; // The wall clock was set meanwhile.
        for (const entry of page) {
          const due = news(entry);
          if (due !== undefined && time.isImpossible(due)) window.hold(queue, due, time.at(due));
        }
        queue.search = page.length < PAGE ? undefined : page.at(-1)?.key;
        window.touch(queue);
      });
      return true;
    },
  };
}
