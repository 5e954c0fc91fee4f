/**
 * Searches stored due lines for times that cannot be true: once at the start and after each step of the wall clock, in
 * the background. A subscription queue that holds all its lines needs no search: its waits use the queue's own time.
 */
import type { Due } from "../../../core/model/delivery.ts";
import { dueKey, duesOf, parseDue } from "../../../core/model/keys.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";
import type { SubscriptionQueue } from "./subscription-queue.ts";
import {
  atOf,
  finding,
  isFutureLine,
  noteFutureLine,
  restOf,
  futureLinesOf,
  type FutureFinding,
} from "./future-lines.ts";
import type { Timeline } from "./timeline.ts";
import type { Window } from "./window.ts";

/** Lines read at once. */
const PAGE = 250;
/** Lines that are due this soon stay where they are, ms. */
const SOON_MS = 2_000;
/** How often the wall clock is read while storage has lines that the queue does not hold, ms. */
const LOOK_MS = 2_000;
/** How long to wait after storage could not be read, ms. */
const AGAIN_MS = 1_000;

interface QueueSearch {
  /** Searches every subscription queue that was not searched since the last step. */
  begin(): void;
  /** Checks for a step of the wall clock. */
  look(): void;
  /** Checks the wall clock from time to time, while a step would misplace a stored line. */
  watch(): void;
  /** Reads a page of a queue's lines with impossible times. @returns false when none is due */
  readPage(queue: SubscriptionQueue): Promise<boolean>;
  close(): Promise<void>;
}

export function createSearch(deps: {
  readonly read: <T>(prefix: string, options: RangeOptions, use: (page: readonly Entry[]) => T) => Promise<T>;
  /** Returns the line of an entry, if the queue does not hold it. */
  readonly news: (entry: Entry) => Due | undefined;
  readonly clock: Pick<Clock, "now" | "sleep">;
  readonly time: Timeline;
  readonly window: Window;
  readonly notify: () => void;
}): QueueSearch {
  const { read, news, clock, time, window, notify } = deps;
  const { queues, touch } = window;
  const closing = new AbortController();
  let searching: Promise<void> | undefined;
  let watching: Promise<void> | undefined;
  let steps = 0;

  const isCurrent = (queue: SubscriptionQueue): boolean => queues.get(queue.id) === queue && !closing.signal.aborted;

  async function searchQueue(queue: SubscriptionQueue): Promise<void> {
    const now = time.now();
    const since = clock.now() + SOON_MS;
    const found = [finding(false, since), finding(true, since)] as const;
    let after = dueKey({ subscriptionId: queue.id, dueAt: since, ordinal: "" });
    for (let length = PAGE; length === PAGE && isCurrent(queue);) {
      length = await read(duesOf(queue.id), { after, limit: PAGE }, (page) => {
        for (const entry of page) note(found, entry);
        after = page.at(-1)?.key ?? after;
        return page.length;
      });
      // Give other work a turn in between.
      await new Promise((resolve) => void setImmediate(resolve));
    }
    if (!isCurrent(queue)) return;
    queue.futureLines = found.flatMap((one) => futureLinesOf(one, now));
    touch(queue);
  }

  async function searchAll(): Promise<void> {
    for (const queue of queues.values()) {
      const round = time.steps();
      if (queue.behind === undefined || queue.searched === round) continue;
      queue.searched = round;
      try {
        await searchQueue(queue);
      } catch {
        queue.searched = undefined;
        await clock.sleep(clock.now() + AGAIN_MS, closing.signal);
      }
      if (closing.signal.aborted) return;
    }
  }

  const isOpen = (queue: SubscriptionQueue): boolean => queue.behind !== undefined && queue.searched !== time.steps();

  function begin(): void {
    if (searching !== undefined || closing.signal.aborted) return;
    searching = searchAll()
      .catch(() => undefined)
      .finally(() => {
        searching = undefined;
        notify();
        if ([...queues.values()].some(isOpen)) begin();
      });
    watch();
  }

  function look(): void {
    time.now();
    if (time.steps() === steps) return;
    steps = time.steps();
    // Their stored lines are due at another time now.
    for (const queue of queues.values()) touch(queue);
    begin();
  }

  function watch(): void {
    watching ??= watchOn()
      .catch(() => undefined)
      .finally(() => {
        watching = undefined;
      });
  }

  async function watchOn(): Promise<void> {
    while ([...queues.values()].some(({ behind }) => behind !== undefined)) {
      await clock.sleep(clock.now() + LOOK_MS, closing.signal);
      look();
    }
  }

  return {
    begin,
    look,
    watch,
    async readPage(queue) {
      const now = time.now();
      const part = queue.futureLines.find(({ at }) => at <= now);
      if (part === undefined) return false;
      const limit = Math.min(PAGE, window.share());
      await read(duesOf(queue.id), { after: part.after, limit }, (page) => {
        const rest = restOf(part, page, page.length === limit, now + SOON_MS);
        queue.futureLines = queue.futureLines.flatMap((one) => (one === part ? (rest ?? []) : one));
        for (const entry of page) {
          if (!isCurrent(queue) || (rest !== undefined && entry.key > rest.after)) break;
          const due = news(entry);
          if (due !== undefined && isFutureLine(part, due)) window.hold(queue, due, atOf([part], due, time));
        }
        touch(queue);
      });
      return true;
    },
    async close() {
      closing.abort(new Error("closed"));
      await searching;
      await watching;
    },
  };
}

function note(found: readonly FutureFinding[], { key, value }: Entry): void {
  try {
    noteFutureLine(found, parseDue(key, value));
  } catch {
    // Not a due line.
  }
}
