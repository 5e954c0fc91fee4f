/** Reads due lines from storage into the queue: a page where a subscription queue runs low, and a sweep over all. */
import { DAMAGED } from "../../../core/model/kind.ts";
import { DUE } from "../../../core/model/schema.ts";
import type { Due } from "../../../core/model/delivery.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";
import type { Window } from "./window.ts";
import { endPage, isBehind, leaveBehind, startPage, type SubscriptionQueue } from "./subscription-queue.ts";
import { createSearch } from "./search.ts";
import type { Timeline } from "./timeline.ts";

/** Lines read at once, for one subscription queue and by the sweep. */
const PAGE = 250;
/** Most lines of one subscription that a sweep takes. */
const SWEEP_SHARE = 100;
/** Pages that are read in a row, before other work gets a turn. */
const PAGES_A_TURN = 16;

interface Refill {
  /** Notes that a subscription queue has room, and that storage has more of it. */
  wantsMore(queue: SubscriptionQueue): void;
  /** Begins to read pages for these queues in the background. */
  refill(): void;
  /** Resolves when the next page is held, or the last one is; undefined when nothing is being read. Never rejects. */
  nextPage(): Promise<void> | undefined;
  sweep(): Promise<number>;
  /** Whether every stored line is held, or known to come after those that are. */
  knowsAll(): boolean;
  /** Notes that a subscription queue was dropped for lack of room: only a sweep finds it again. */
  forgot(): void;
  /** The time has come that the timer was set to for the subscription queue. */
  woken(queue: SubscriptionQueue): void;
  /** Notes that storage no longer has this line: a page that is being read must not bring it back. */
  moved(due: Due): void;
  close(): Promise<void>;
}

export function createRefill(deps: {
  readonly range: (prefix: string, options?: RangeOptions) => Promise<readonly Entry[]>;
  readonly unacknowledged?: () => ReadonlySet<string>;
  readonly clock: Pick<Clock, "now">;
  readonly time: Timeline;
  readonly window: Window;
  /** Called when something may be claimed. */
  readonly notify: () => void;
  /** Has the subscription queue refilled again soon. */
  readonly later: (queue: SubscriptionQueue) => void;
}): Refill {
  const { range, unacknowledged, clock, time, window, notify, later } = deps;
  const { queues, queueOf, touch, free, share, prune } = window;
  const wantsMore = new Set<SubscriptionQueue>();
  const gone = new Set<string>();
  /** Lines that a crash may still take back, so that none is claimed: who commits one adds it, or else the next sweep does. */
  let early: ReadonlySet<string> | undefined;
  let reading = 0;
  let feeding: Promise<void> | undefined;
  /** Made when a claim waits for the next page. */
  let awaited: PromiseWithResolvers<void> | undefined;
  let sweeping: Promise<number> | undefined;
  let forgotten = false;
  let swept = false;
  let closed = false;

  /** Reads a page and passes it on in the same turn, while the lines that ended since the read began are still known. */
  async function read<T>(prefix: string, options: RangeOptions, use: (page: readonly Entry[]) => T): Promise<T> {
    reading++;
    try {
      const page = await range(prefix, options);
      early = unacknowledged?.();
      return use(page);
    } finally {
      reading--;
      if (reading === 0) gone.clear();
      pageEnded();
    }
  }

  function pageEnded(): void {
    awaited?.resolve();
    awaited = undefined;
  }

  /** Returns the line of an entry, if the queue does not hold it. */
  function news({ key, value }: Entry): Due | undefined {
    const due = DUE.read(value, key);
    if (due === DAMAGED) return undefined; // Not a due line; the check of stored data reports it.
    return early?.has(key) || gone.has(key) || queues.get(due.subscriptionId)?.lines.has(due.ordinal) ? undefined : due;
  }

  async function readPages(queue: SubscriptionQueue): Promise<void> {
    const limit = Math.min(PAGE, share());
    await read(DUE.under({ subscriptionId: queue.id }), { after: startPage(queue), limit }, (page) => {
      if (queues.get(queue.id) !== queue) return;
      endPage(queue, page.length < limit ? undefined : page.at(-1)?.key);
      for (const entry of page) {
        const due = news(entry);
        if (due !== undefined) window.hold(queueOf(queue.id), due, time.at(due));
      }
      touch(queue);
    });
  }

  /** Reads a page of the search, if it is on, and a page of the lines in their order, if they are due or it is off. */
  async function readOnce(queue: SubscriptionQueue): Promise<void> {
    const due = !(await search.readPage(queue)) || queue.behindAt - time.ahead() <= time.now();
    if (due && queue.behind !== undefined && queues.get(queue.id) === queue) await readPages(queue);
  }

  async function feedAll(): Promise<void> {
    let pages = 0;
    // Those that ask meanwhile are for the next time, so that this one ends.
    for (const queue of [...wantsMore]) {
      if (closed || free() <= 0) break;
      wantsMore.delete(queue);
      if (queues.get(queue.id) !== queue) continue;
      await readOnce(queue).then(notify, () => later(queue));
      if (++pages % PAGES_A_TURN === 0) await turn();
    }
    if (forgotten && free() > 0.5 && !closed) await sweep().catch(() => 0);
  }

  async function sweepAll(): Promise<number> {
    forgotten = false;
    prune();
    let found = 0;
    let queue: SubscriptionQueue | undefined;
    let taken = 0;
    let skipping = false;
    let after: string | undefined;

    function enter(next: SubscriptionQueue | undefined): void {
      // A queue that was dropped meanwhile, for lack of room, is not the one that has its name now.
      if (queue !== undefined && queues.get(queue.id) === queue && !forgotten) queue.whole = true;
      [queue, taken, skipping] = [next, 0, false];
    }

    function use(page: readonly Entry[]): void {
      const most = Math.min(SWEEP_SHARE, share());
      for (const entry of page) {
        const id = DUE.id(entry.key).subscriptionId;
        if (id !== queue?.id) enter(queueOf(id));
        if (skipping) continue;
        const own = queueOf(id);
        if (taken >= most) {
          // A complete queue reads on by itself.
          if (!own.whole) leaveBehind(own, entry.key.slice(0, -1), DUE.id(entry.key).dueAt);
          skipping = true;
        } else {
          taken++;
          const due = news(entry);
          if (due === undefined) continue;
          if (!isBehind(own, due)) {
            window.hold(own, due, time.at(due));
            found++;
          }
        }
        touch(own);
      }
    }

    while (!closed) {
      const length = await read(DUE.start, { after, limit: PAGE }, (page) => {
        use(page);
        after = skipping && queue !== undefined ? DUE.end({ subscriptionId: queue.id }) : page.at(-1)?.key;
        return page.length;
      });
      if (length < PAGE) break;
      // Many subscriptions make many pages: give other work a turn in between.
      await turn();
    }
    enter(undefined);
    swept = true;
    search.look();
    return found;
  }

  function sweep(): Promise<number> {
    const next = sweeping === undefined ? sweepAll() : sweeping.then(sweepAll, sweepAll);
    sweeping = next;
    const over = (): void => {
      if (sweeping === next) sweeping = undefined;
    };
    next.then(over, over);
    return next;
  }

  const search = createSearch({ read, news, clock, time, window });

  return {
    wantsMore: (queue) => void wantsMore.add(queue),
    woken(queue) {
      search.look();
      touch(queue);
    },
    refill() {
      search.look();
      if (feeding !== undefined || (wantsMore.size === 0 && !(forgotten && free() > 0.5))) return;
      feeding = feedAll().finally(() => {
        feeding = undefined;
        pageEnded();
      });
    },
    nextPage: () => feeding && (awaited ??= Promise.withResolvers()).promise,
    sweep,
    knowsAll: () => swept && !forgotten,
    forgot() {
      forgotten = true;
    },
    moved(due) {
      if (reading > 0) gone.add(DUE.key(due));
    },
    async close() {
      closed = true;
      await feeding;
      await sweeping?.catch(() => 0);
    },
  };
}

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
