/** The queue of one subscription: its first due lines, and where the rest begins in storage. */
import { DUE } from "../../../core/model/schema.ts";
import type { Due } from "../../../core/model/delivery.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Change } from "../../../core/ports/storage.ts";
import type { Timeline } from "./timeline.ts";

export interface QueueLine {
  readonly queue: SubscriptionQueue;
  /** The line as stored. */
  due: Due;
  /** When it may be claimed: at its due time, unless it was given back for later or its time cannot be true. */
  at: number;
  /** Set while it is leased. */
  token: string | undefined;
  /** Whether it is being settled. */
  settling: boolean;
}

export interface SubscriptionQueue {
  readonly id: string;
  /** Every held line, leased or not, by ordinal. */
  readonly lines: Map<string, QueueLine>;
  /** The lines that wait, soonest first. */
  readonly waiting: QueueLine[];
  /** Storage may have lines after this key that are not held; undefined when it has none. */
  behind: string | undefined;
  /** When the first of those may be claimed, or earlier: wall-clock time at the write of the line. */
  behindAt: number;
  /** The key after which the search for impossible times goes on; undefined between searches. */
  search: string | undefined;
  /**
   * When the next search begins, by the queue's time: at once for a new queue and after a step of the wall clock; later
   * when the first line that it finds, and that the window has no room for, is due. Infinity: there is none to find.
   */
  searchAt: number;
  /** Where lines left to storage since a page was requested begin: the page may not show them. */
  left: { readonly behind: string; readonly at: number } | undefined;
  /** A sweep has read all of it: every line that is not held comes after `behind`. */
  whole: boolean;
  /** Monotonic time at which the pause ends; 0: none. */
  pauseEnds: number;
  /** Monotonic time at which the hold ends; 0: none. */
  holdEnds: number;
  /** The times at which a timer checks this queue, the soonest last. A later one stays set while sooner ones come and go. */
  readonly timers: number[];
  /** Settles under way; a cancel waits for them. */
  settling: number;
  settled: (() => void)[];
}

export const newLine = (queue: SubscriptionQueue, due: Due, at: number): QueueLine => ({
  queue,
  due,
  at,
  token: undefined,
  settling: false,
});

export const newSubscriptionQueue = (id: string): SubscriptionQueue => ({
  id,
  lines: new Map(),
  waiting: [],
  behind: undefined,
  behindAt: Number.POSITIVE_INFINITY,
  search: undefined,
  searchAt: 0,
  left: undefined,
  whole: false,
  pauseEnds: 0,
  holdEnds: 0,
  timers: [],
  settling: 0,
  settled: [],
});

/** Commits changes of lines of the subscription queue: a cancel of it waits for that. */
export type CommitOf = ReturnType<typeof settling>;

/** @param commit with `soon` it may wait a few ms for other commits */
export function settling(commit: (changes: readonly Change[], soon?: boolean) => Promise<void>) {
  return async (queue: SubscriptionQueue, changes: readonly Change[], soon: boolean): Promise<void> => {
    queue.settling++;
    try {
      await commit(changes, soon);
    } finally {
      queue.settling--;
      if (queue.settling === 0 && queue.settled.length > 0) for (const resolve of queue.settled.splice(0)) resolve();
    }
  };
}

/** Returns how long nothing of it may be claimed, ms: it is paused or held back. */
export function pausedMs(queue: SubscriptionQueue, clock: Pick<Clock, "monotonic">): number {
  if (queue.pauseEnds === 0 && queue.holdEnds === 0) return 0;
  const left = Math.max(queue.pauseEnds, queue.holdEnds) - clock.monotonic();
  if (left > 0) return left;
  queue.pauseEnds = 0;
  queue.holdEnds = 0;
  return 0;
}

/** Returns when storage is to be read, by the queue's time; infinity when it has no line that is not held. */
export function storedAt(queue: SubscriptionQueue, time: Timeline): number {
  if (queue.behind === undefined) return Number.POSITIVE_INFINITY;
  return queue.search !== undefined ? 0 : Math.min(queue.behindAt - time.ahead(), queue.searchAt);
}

/** Returns when the next line may be claimed, by the queue's time, ignoring pauses; infinity without one. */
export function firstAt(queue: SubscriptionQueue, time: Timeline): number {
  return Math.min(queue.waiting[0]?.at ?? Number.POSITIVE_INFINITY, queue.behindAt - time.ahead());
}

/**
 * Returns when the next line may be claimed, by the queue's time; infinity without one.
 * @param at when it may be, ignoring pauses
 */
export function nextAt(
  queue: SubscriptionQueue,
  time: Timeline,
  clock: Pick<Clock, "monotonic">,
  at = firstAt(queue, time),
): number {
  const left = pausedMs(queue, clock);
  // Rounded up, because the wall clock counts whole milliseconds: a check that comes too early must be repeated.
  return left > 0 ? Math.max(time.now() + Math.ceil(left), at) : at;
}

/** Inserts a line in its place among those that wait. */
export function enqueue(line: QueueLine): void {
  const { waiting } = line.queue;
  let low = 0;
  let high = waiting.length;
  // New lines mostly come last.
  if (high > 0 && precedes(waiting[high - 1] as QueueLine, line)) low = high;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (precedes(waiting[middle] as QueueLine, line)) low = middle + 1;
    else high = middle;
  }
  if (low === waiting.length) waiting.push(line);
  else waiting.splice(low, 0, line);
}

function precedes(a: QueueLine, b: QueueLine): boolean {
  return a.at < b.at || (a.at === b.at && a.due.ordinal < b.due.ordinal);
}

/** Removes a waiting line. */
export function dequeue(line: QueueLine): void {
  const { waiting } = line.queue;
  if (waiting[0] === line) waiting.shift();
  else waiting.splice(waiting.indexOf(line), 1);
}

/** Whether a new line sorts after the held ones, so that storage may keep it. */
export function isBehind(queue: SubscriptionQueue, due: Due): boolean {
  if (queue.behind === undefined || due.dueAt < queue.behindAt) return false;
  return due.dueAt > queue.behindAt || DUE.key(due) > queue.behind;
}

/** Drops the last waiting line, which stays in storage, and returns it. */
export function evictLast(queue: SubscriptionQueue, time: Timeline): QueueLine | undefined {
  const line = queue.waiting.pop();
  if (line === undefined) return undefined;
  const { due, at } = line;
  queue.lines.delete(due.ordinal);
  leaveBehind(queue, before(due), waitsUntil(line, time) ?? due.dueAt);
  if (time.isImpossible(due)) queue.searchAt = Math.min(queue.searchAt, at);
  return line;
}

/** Returns until when a line waits that was given back for later than storage says, by the wall clock; else undefined. */
export function waitsUntil({ due, at }: QueueLine, time: Timeline): number | undefined {
  return at > time.at(due) ? Math.max(due.dueAt, at + time.ahead()) : undefined;
}

/** Notes that storage has more lines after `key`, the first of them due at `at` or later. */
export function leaveBehind(queue: SubscriptionQueue, key: string, at: number): void {
  if (queue.behind === undefined || key < queue.behind) queue.behind = key;
  queue.behindAt = Math.min(queue.behindAt, at);
  noteLeft(queue, key, at);
}

/** Notes that storage has this line, wherever it sorts: a page that begins with it is read. */
export const leaveInStorage = (queue: SubscriptionQueue, due: Due): void => leaveBehind(queue, before(due), due.dueAt);

/** The first key and the soonest time may be of different lines: the line with the first key may be given back for later. */
function noteLeft(queue: SubscriptionQueue, key: string, at: number): void {
  const { left } = queue;
  if (left === undefined) queue.left = { behind: key, at };
  else if (key < left.behind || at < left.at) {
    queue.left = { behind: key < left.behind ? key : left.behind, at: Math.min(at, left.at) };
  }
}

/** Returns the longest text below a line's key, so that a page read after it begins with that line. */
const before = (due: Due): string => DUE.key(due).slice(0, -1);

/** Begins the request of a page. Returns the key after which it starts. */
export function startPage(queue: SubscriptionQueue): string | undefined {
  queue.left = undefined;
  return queue.behind;
}

/** Ends the request of a page. `last` is its last key if there may be more: what is left to storage begins there, or sooner. */
export function endPage(queue: SubscriptionQueue, last: string | undefined): void {
  const { left } = queue;
  queue.behind = undefined;
  queue.behindAt = Number.POSITIVE_INFINITY;
  if (last !== undefined) leaveBehind(queue, last, DUE.id(last).dueAt);
  if (left !== undefined) leaveBehind(queue, left.behind, left.at);
}
