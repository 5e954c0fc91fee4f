/**
 * Finds stored due lines whose times cannot be true, because the clock that wrote them was wrong. They sort after lines
 * that are due later, so they are read separately.
 */
import { neverTried, type Due } from "../../../core/model/delivery.ts";
import { dueKey } from "../../../core/model/keys.ts";
import type { Entry } from "../../../core/ports/storage.ts";
import { longestWait, type Timeline } from "./timeline.ts";

/** A part of one subscription's stored lines that contains lines with impossible times of one kind. */
export interface FutureLines {
  /** True for retries and replays; false for deliveries without an attempt, which are due now. */
  readonly tried: boolean;
  /** Reading continues after this key… */
  readonly after: string;
  /** …and ends with this one. */
  readonly until: string;
  /** Lines written later than this, by the wall clock, have impossible times. */
  readonly since: number;
  /** Subtracted from the time in their keys, ms: the result is when they are due by the queue's time. Infinite: at once. */
  readonly shift: number;
  /** When the next of them is due, by the queue's time, or earlier. */
  readonly at: number;
}

/** Returns the wall clock's time when a line was written, or earlier. */
const writtenAt = (due: Due): number => due.dueAt - longestWait(due);

export const isFutureLine = ({ tried, since }: Pick<FutureLines, "tried" | "since">, due: Due): boolean =>
  neverTried(due) !== tried && writtenAt(due) > since;

/** Returns when a line read from storage may be claimed, by the queue's time. */
export function atOf(parts: readonly FutureLines[], due: Due, time: Timeline): number {
  let at = time.at(due);
  if (parts.length === 0) return at;
  const key = dueKey(due);
  for (const part of parts)
    if (part.tried && key <= part.until && isFutureLine(part, due)) at = Math.min(at, due.dueAt - part.shift);
  return at;
}

/**
 * Returns what is left of a part after a page of it was read.
 * @param full there may be more after the page
 */
export function restOf(part: FutureLines, page: readonly Entry[], full: boolean, now: number): FutureLines | undefined {
  let { after } = part;
  for (const { key } of page) {
    if (key > part.until) return undefined;
    const at = timeIn(key) - part.shift;
    if (at > now) return { ...part, after, at };
    after = key;
  }
  return full && after < part.until ? { ...part, after } : undefined;
}

/** Lines with impossible times of one kind, found among lines that are read in order. */
export interface FutureFinding {
  readonly tried: boolean;
  readonly since: number;
  first: string | undefined;
  last: string;
  /** When the last of them was written. */
  writtenAt: number;
}

export const finding = (tried: boolean, since: number): FutureFinding => ({
  tried,
  since,
  first: undefined,
  last: "",
  writtenAt: 0,
});

export function noteFutureLine(found: readonly FutureFinding[], due: Due): void {
  for (const one of found) {
    if (!isFutureLine(one, due)) continue;
    one.last = dueKey(due);
    one.first ??= one.last;
    one.writtenAt = Math.max(one.writtenAt, writtenAt(due));
  }
}

/** Builds the part for what was found: the newest line counts as written now, the others as much earlier as they are. */
export function futureLinesOf(
  { tried, since, first, last, writtenAt: latest }: FutureFinding,
  now: number,
): readonly FutureLines[] {
  if (first === undefined) return [];
  const shift = tried ? latest - now : Number.POSITIVE_INFINITY;
  return [{ tried, after: first.slice(0, -1), until: last, since, shift, at: tried ? timeIn(first) - shift : now }];
}

const timeIn = (key: string): number => Number(key.split(":")[2]);

/** Adds a line that goes back to storage, where it sorts after lines that are due later. */
export function addFutureLine(
  parts: readonly FutureLines[],
  due: Due,
  after: string,
  at: number,
): readonly FutureLines[] {
  const tried = !neverTried(due);
  const shift = tried ? due.dueAt - at : Number.POSITIVE_INFINITY;
  const own: FutureLines = { tried, after, until: dueKey(due), since: writtenAt(due) - 1, shift, at };
  const known = parts.find((part) => part.tried === tried);
  if (known === undefined) return [...parts, own];
  const both: FutureLines = {
    tried,
    after: after < known.after ? after : known.after,
    until: own.until > known.until ? own.until : known.until,
    since: Math.min(own.since, known.since),
    shift: Math.max(shift, known.shift),
    at: Math.min(at, known.at),
  };
  return parts.map((part) => (part === known ? both : part));
}
