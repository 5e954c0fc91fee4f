/** One subscription's part of the queue: the first of its due lines, and where in storage the rest begins. */
import { dueKey } from "../../../core/model/keys.ts";
import type { Due } from "../../../core/model/delivery.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { addFutureLine, type FutureLines } from "./future-lines.ts";
import type { Timeline } from "./timeline.ts";

export interface QueueLine {
  /** As it stands in storage. */
  due: Due;
  /** When it may be claimed, by the queue's time: its due time, unless it was given back for later or its time cannot be true. */
  at: number;
  /** Set while it is leased. */
  token: string | undefined;
  /** A settle of it is under way. */
  settling: boolean;
}

export interface SubscriptionQueue {
  readonly id: string;
  /** Every line held, leased or not, by ordinal. */
  readonly lines: Map<string, QueueLine>;
  /** Those that wait, soonest first. */
  readonly waiting: QueueLine[];
  /** Storage may hold lines behind this key that are not held here; undefined when it cannot. */
  behind: string | undefined;
  /** When the first of those may be claimed, or earlier: of the wall clock, as it was when the line was written. */
  behindAt: number;
  /** Parts of what storage holds whose times cannot be true: read apart from the rest. */
  strays: readonly FutureLines[];
  /** After how many steps of the wall clock what storage holds was searched for those; undefined: never. */
  searched: number | undefined;
  /** The same of what was left to storage since a page was asked for, which the page may therefore not show. */
  left: { readonly behind: string; readonly at: number } | undefined;
  /** A sweep has passed over all of it: whatever it does not hold is behind `behind`. */
  whole: boolean;
  /** By the monotonic clock; 0: no pause. */
  pauseEnds: number;
  /** The same of a hold. */
  holdEnds: number;
  /** The soonest time at which the queue's timers look at this lane. */
  timerAt: number;
  /** A claim left it alone because it had enough under way. */
  blocked: boolean;
  /** Settles under way; a cancel waits for them. */
  settling: number;
  settled: (() => void)[];
}

export const newSubscriptionQueue = (id: string): SubscriptionQueue => ({
  id,
  lines: new Map(),
  waiting: [],
  behind: undefined,
  behindAt: Number.POSITIVE_INFINITY,
  strays: [],
  searched: undefined,
  left: undefined,
  whole: false,
  pauseEnds: 0,
  holdEnds: 0,
  timerAt: Number.POSITIVE_INFINITY,
  blocked: false,
  settling: 0,
  settled: [],
});

/** How long nothing of it may be claimed, ms: it is paused, or held back. */
export function pausedMs(lane: SubscriptionQueue, clock: Pick<Clock, "monotonic">): number {
  if (lane.pauseEnds === 0 && lane.holdEnds === 0) return 0;
  const left = Math.max(lane.pauseEnds, lane.holdEnds) - clock.monotonic();
  if (left > 0) return left;
  lane.pauseEnds = 0;
  lane.holdEnds = 0;
  return 0;
}

/** When storage may have something of it that is due, by the queue's time; infinity when it has nothing. */
export function storedAt(lane: SubscriptionQueue, time: Timeline): number {
  let at = lane.behindAt - time.ahead();
  for (const stray of lane.strays) at = Math.min(at, stray.at);
  return at;
}

/** When something of it may be claimed next, by the queue's time, pauses apart; infinity when it has nothing. */
export function firstAt(lane: SubscriptionQueue, time: Timeline): number {
  return Math.min(lane.waiting[0]?.at ?? Number.POSITIVE_INFINITY, storedAt(lane, time));
}

/** When something of it may be claimed next, by the queue's time; infinity when it has nothing. */
export function nextAt(lane: SubscriptionQueue, time: Timeline, clock: Pick<Clock, "monotonic">): number {
  const at = firstAt(lane, time);
  const left = pausedMs(lane, clock);
  // Whole milliseconds more, as the wall clock counts no parts of one: what is looked at too early is looked at again.
  return left > 0 ? Math.max(time.now() + Math.ceil(left), at) : at;
}

/** Puts a line in its place among those that wait. */
export function enqueue(lane: SubscriptionQueue, line: QueueLine): void {
  const { waiting } = lane;
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

/** Takes a waiting line out. */
export function dequeue(lane: SubscriptionQueue, line: QueueLine): void {
  if (lane.waiting[0] === line) lane.waiting.shift();
  else lane.waiting.splice(lane.waiting.indexOf(line), 1);
}

/** Whether a new line's place is behind what is held, so that storage may keep it. */
export function isBehind(lane: SubscriptionQueue, due: Due): boolean {
  if (lane.behind === undefined || due.dueAt < lane.behindAt) return false;
  return due.dueAt > lane.behindAt || dueKey(due) > lane.behind;
}

/** Drops the last of the waiting lines, and returns it: storage has it. */
export function evictLast(lane: SubscriptionQueue, time: Timeline): QueueLine | undefined {
  const line = lane.waiting.pop();
  if (line === undefined) return undefined;
  const { due, at } = line;
  lane.lines.delete(due.ordinal);
  leaveBehind(lane, before(due), restsUntil(line, time) ?? due.dueAt);
  // Its place in storage is a later one than its time.
  if (at < due.dueAt - time.ahead()) lane.strays = addFutureLine(lane.strays, due, before(due), at);
  return line;
}

/** When a line may be claimed that was given back for later than storage says, by the wall clock; else undefined. */
export function restsUntil({ due, at }: QueueLine, time: Timeline): number | undefined {
  return at > time.at(due) ? Math.max(due.dueAt, at + time.ahead()) : undefined;
}

/** Notes that storage holds more behind `key`; the first of it is due at `at` or later. */
export function leaveBehind(lane: SubscriptionQueue, key: string, at: number): void {
  if (lane.behind === undefined || key < lane.behind) lane.behind = key;
  lane.behindAt = Math.min(lane.behindAt, at);
  noteLeft(lane, key, at);
}

/** Leaves a new line to storage, its place being behind what is held. */
export function leaveToStorage(lane: SubscriptionQueue, due: Due): void {
  if (lane.left !== undefined && lane.left.at < due.dueAt) return;
  noteLeft(lane, before(due), due.dueAt);
}

/** The first key and the soonest time need not be of one line: the line with the first key may be given back for later. */
function noteLeft(lane: SubscriptionQueue, key: string, at: number): void {
  const { left } = lane;
  if (left === undefined) lane.left = { behind: key, at };
  else if (key < left.behind || at < left.at) {
    lane.left = { behind: key < left.behind ? key : left.behind, at: Math.min(at, left.at) };
  }
}

/** The longest text below a line's key, so that a page read behind it begins with the line itself. */
const before = (due: Due): string => dueKey(due).slice(0, -1);

/** A page is asked for. Returns the key behind which it is to begin. */
export function startPage(lane: SubscriptionQueue): string | undefined {
  lane.left = undefined;
  return lane.behind;
}

/** The page is here, and ends at `last` if there may be more: what is left to storage begins there, or sooner. */
export function endPage(lane: SubscriptionQueue, last: string | undefined): void {
  const { left } = lane;
  lane.behind = undefined;
  lane.behindAt = Number.POSITIVE_INFINITY;
  if (last !== undefined) leaveBehind(lane, last, Number(last.split(":")[2]));
  if (left !== undefined) leaveBehind(lane, left.behind, left.at);
  // All of it is held: there is nothing to read apart.
  if (lane.behind === undefined) lane.strays = [];
}
