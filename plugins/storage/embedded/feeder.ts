/** Reads due lines from storage into the queue: a page for a lane that runs low, and the sweep over all subscriptions. */
import { dueKey, duesOf, parseDue } from "../../../core/model/keys.ts";
import type { Due } from "../../../core/model/delivery.ts";
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";
import { endPage, isBehind, leaveBehind, startPage, type Lane } from "./lane.ts";

/** Lines read at once for one lane, and by the sweep. */
const PAGE = 250;
/** Most lines of one subscription that a sweep takes. */
const SWEEP_SHARE = 100;

export interface Feeder {
  /** The lane has room, and storage more of it. */
  hungry(lane: Lane): void;
  /** Feeds the hungry in the background; undefined when there are none. What it resolves to never rejects. */
  feed(): Promise<void> | undefined;
  sweep(): Promise<number>;
  /** A lane was dropped for want of room: only a sweep finds it again. */
  forgot(): void;
  /** Storage has this line no more: a page that was being read meanwhile must not bring it back. */
  moved(due: Due): void;
  close(): Promise<void>;
}

export function createFeeder(deps: {
  readonly range: (prefix: string, options?: RangeOptions) => Promise<readonly Entry[]>;
  readonly lanes: ReadonlyMap<string, Lane>;
  readonly laneOf: (id: string) => Lane;
  readonly take: (due: Due) => void;
  readonly touch: (lane: Lane) => void;
  /** The part of the window that is free; below 0 it is overfull. */
  readonly free: () => number;
  readonly share: () => number;
  /** Has the lane looked at again soon. */
  readonly later: (lane: Lane) => void;
  readonly ring: () => void;
  readonly prune: () => void;
}): Feeder {
  const { range, lanes, laneOf, take, touch, free, share, later, ring, prune } = deps;
  const hungry = new Set<Lane>();
  const gone = new Set<string>();
  let reading = 0;
  let feeding: Promise<void> | undefined;
  let sweeping: Promise<number> | undefined;
  let forgotten = false;
  let closed = false;

  /** Reads a page and hands it over in the same turn, with what ended since the read began still known. */
  async function read<T>(prefix: string, options: RangeOptions, use: (page: readonly Entry[]) => T): Promise<T> {
    reading++;
    try {
      return use(await range(prefix, options));
    } finally {
      reading--;
      if (reading === 0) gone.clear();
    }
  }

  /** The line of an entry if it is news to the queue. */
  function news({ key, value }: Entry): Due | undefined {
    let due: Due;
    try {
      due = parseDue(key, value);
    } catch {
      return undefined; // Not a line of ours; the check of stored data reports it.
    }
    return gone.has(key) || lanes.get(due.subscriptionId)?.lines.has(due.ordinal) ? undefined : due;
  }

  async function feedLane(lane: Lane): Promise<void> {
    const limit = Math.min(PAGE, share());
    await read(duesOf(lane.id), { after: startPage(lane), limit }, (page) => {
      if (lanes.get(lane.id) !== lane) return;
      endPage(lane, page.length < limit ? undefined : page.at(-1)?.key);
      for (const entry of page) {
        const due = news(entry);
        if (due !== undefined) take(due);
      }
      touch(lane);
    });
  }

  async function feedAll(): Promise<void> {
    for (const lane of hungry) {
      if (closed || free() <= 0) break;
      hungry.delete(lane);
      if (lanes.get(lane.id) !== lane || lane.behind === undefined) continue;
      await feedLane(lane).then(ring, () => later(lane));
    }
    if (forgotten && free() > 0.5 && !closed) await sweep().catch(() => 0);
  }

  async function sweepAll(): Promise<number> {
    forgotten = false;
    prune();
    let found = 0;
    let id = "";
    let taken = 0;
    let skipping = false;
    let after: string | undefined;

    function use(page: readonly Entry[]): void {
      const most = Math.min(SWEEP_SHARE, share());
      for (const entry of page) {
        const own = entry.key.slice("due:".length, entry.key.indexOf(":", "due:".length));
        if (own !== id) [id, taken, skipping] = [own, 0, false];
        if (skipping) continue;
        if (taken >= most) {
          const lane = laneOf(id);
          // One that knows more than this reads on by itself.
          if (lane.lines.size <= most) leaveBehind(lane, entry.key.slice(0, -1), Number(entry.key.split(":")[2]));
          touch(lane);
          skipping = true;
          continue;
        }
        taken++;
        const due = news(entry);
        if (due === undefined) continue;
        const lane = laneOf(id);
        if (!isBehind(lane, due)) {
          take(due);
          found++;
        }
        touch(lane);
      }
    }

    while (!closed) {
      const length = await read("due:", { after, limit: PAGE }, (page) => {
        use(page);
        after = skipping ? `${duesOf(id)}~` : page.at(-1)?.key;
        return page.length;
      });
      if (length < PAGE) break;
      // Many subscriptions make many pages: others get their turn in between.
      await new Promise((resolve) => void setImmediate(resolve));
    }
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

  return {
    hungry: (lane) => void hungry.add(lane),
    feed() {
      if (feeding !== undefined || (hungry.size === 0 && !(forgotten && free() > 0.5))) return feeding;
      feeding = feedAll().finally(() => {
        feeding = undefined;
      });
      return feeding;
    },
    sweep,
    forgot() {
      forgotten = true;
    },
    moved(due) {
      if (reading > 0) gone.add(dueKey(due));
    },
    async close() {
      closed = true;
      await feeding;
      await sweeping?.catch(() => 0);
    },
  };
}
