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

export interface Search {
  /** Searches every subscription queue that was not searched since the last step. */
  begin(): void;
  /** Checks for a step of the wall clock. */
  look(): void;
  /** Checks the wall clock from time to time, while a step would misplace a stored line. */
  watch(): void;
  /** Reads a page of a queue's lines with impossible times. @returns false when none is due */
  feed(lane: SubscriptionQueue): Promise<boolean>;
  close(): Promise<void>;
}

export function createSearch(deps: {
  readonly read: <T>(prefix: string, options: RangeOptions, use: (page: readonly Entry[]) => T) => Promise<T>;
  /** Returns the line of an entry, if the queue does not hold it. */
  readonly news: (entry: Entry) => Due | undefined;
  readonly clock: Pick<Clock, "now" | "sleep">;
  readonly time: Timeline;
  readonly window: Window;
  readonly ring: () => void;
}): Search {
  const { read, news, clock, time, window, ring } = deps;
  const { lanes, touch } = window;
  const closing = new AbortController();
  let searching: Promise<void> | undefined;
  let watching: Promise<void> | undefined;
  let steps = 0;

  const isCurrent = (lane: SubscriptionQueue): boolean => lanes.get(lane.id) === lane && !closing.signal.aborted;

  async function searchLane(lane: SubscriptionQueue): Promise<void> {
    const now = time.now();
    const since = clock.now() + SOON_MS;
    const found = [finding(false, since), finding(true, since)] as const;
    let after = dueKey({ subscriptionId: lane.id, dueAt: since, ordinal: "" });
    for (let length = PAGE; length === PAGE && isCurrent(lane);) {
      length = await read(duesOf(lane.id), { after, limit: PAGE }, (page) => {
        for (const entry of page) note(found, entry);
        after = page.at(-1)?.key ?? after;
        return page.length;
      });
      // Give other work a turn in between.
      await new Promise((resolve) => void setImmediate(resolve));
    }
    if (!isCurrent(lane)) return;
    lane.strays = found.flatMap((one) => futureLinesOf(one, now));
    touch(lane);
  }

  async function searchAll(): Promise<void> {
    for (const lane of lanes.values()) {
      const round = time.steps();
      if (lane.behind === undefined || lane.searched === round) continue;
      lane.searched = round;
      try {
        await searchLane(lane);
      } catch {
        lane.searched = undefined;
        await clock.sleep(clock.now() + AGAIN_MS, closing.signal);
      }
      if (closing.signal.aborted) return;
    }
  }

  const isOpen = (lane: SubscriptionQueue): boolean => lane.behind !== undefined && lane.searched !== time.steps();

  function begin(): void {
    if (searching !== undefined || closing.signal.aborted) return;
    searching = searchAll()
      .catch(() => undefined)
      .finally(() => {
        searching = undefined;
        ring();
        if ([...lanes.values()].some(isOpen)) begin();
      });
    watch();
  }

  function look(): void {
    time.now();
    if (time.steps() === steps) return;
    steps = time.steps();
    // Their stored lines are due at another time now.
    for (const lane of lanes.values()) touch(lane);
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
    while ([...lanes.values()].some(({ behind }) => behind !== undefined)) {
      await clock.sleep(clock.now() + LOOK_MS, closing.signal);
      look();
    }
  }

  return {
    begin,
    look,
    watch,
    async feed(lane) {
      const now = time.now();
      const stray = lane.strays.find(({ at }) => at <= now);
      if (stray === undefined) return false;
      const limit = Math.min(PAGE, window.share());
      await read(duesOf(lane.id), { after: stray.after, limit }, (page) => {
        const rest = restOf(stray, page, page.length === limit, now + SOON_MS);
        lane.strays = lane.strays.flatMap((one) => (one === stray ? (rest ?? []) : one));
        for (const entry of page) {
          if (!isCurrent(lane) || (rest !== undefined && entry.key > rest.after)) break;
          const due = news(entry);
          if (due !== undefined && isFutureLine(stray, due)) window.hold(lane, due, atOf([stray], due, time));
        }
        touch(lane);
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
