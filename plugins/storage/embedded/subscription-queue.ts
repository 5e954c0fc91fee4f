/** The queue of one subscription: its first due lines, and where the rest begins in storage. */
import { DUE } from "../../../core/model/schema.ts";
import type { Due } from "../../../core/model/delivery.ts";
import { firstNot } from "./sorted-map.ts";
import type { Timeline } from "./timeline.ts";

export interface QueueLine {
  readonly queue: SubscriptionQueue;
  /** The line as stored. */
  due: Due;
  /** When it may be claimed: at its due time, unless it was given back for later or its time cannot be true. */
  at: number;
  /** Set while it is leased. */
  token: string | undefined;
  /** True while it is being settled. */
  settling: boolean;
}

/** Times are the queue's own (`Timeline`) where nothing else is said. */
export class SubscriptionQueue {
  readonly id: string;
  /** Every held line, leased or not, by ordinal. */
  readonly lines = new Map<string, QueueLine>();
  /** The lines that wait, soonest first. */
  readonly waiting: QueueLine[] = [];
  /** Storage may have lines after this key that are not held; undefined when it has none. */
  behind: string | undefined;
  /** When the first of those may be claimed, or earlier: wall-clock time at the write of the line. */
  behindAt = Number.POSITIVE_INFINITY;
  /** The key after which the search for impossible times goes on; undefined between searches. */
  search: string | undefined;
  /**
   * When the next search begins: at once for a new queue and after a step of the wall clock; later when the first line
   * that it finds, and that the window has no room for, is due. Infinity: there is none to find.
   */
  searchAt = 0;
  /** A sweep has read all of it: every line that is not held comes after `behind`. */
  whole = false;
  /** Monotonic time at which the pause ends; 0: none. */
  pauseEnds = 0;
  /** Monotonic time at which the hold ends; 0: none. */
  holdEnds = 0;
  /** The times at which a timer checks this queue, the soonest last. A later one stays set while sooner ones come and go. */
  readonly timers: number[] = [];
  /** Commits under way that change its lines; a cancel waits for them. */
  readonly commits = new Set<Promise<void>>();
  readonly #time: Timeline;
  /** Where lines left to storage since a page was requested begin: the page may not show them. */
  #left: { readonly behind: string; readonly at: number } | undefined;

  constructor(id: string, time: Timeline) {
    this.id = id;
    this.#time = time;
  }

  /** Holds a line that does not wait. */
  add(due: Due, at: number): QueueLine {
    const line: QueueLine = { queue: this, due, at, token: undefined, settling: false };
    this.lines.set(due.ordinal, line);
    return line;
  }

  /** Inserts a line in its place among those that wait. */
  enqueue(line: QueueLine): void {
    const { waiting } = this;
    const last = waiting.at(-1);
    // New lines mostly come last.
    if (last === undefined || precedes(last, line)) waiting.push(line);
    else
      waiting.splice(
        firstNot(waiting.length, (index) => precedes(waiting[index] as QueueLine, line)),
        0,
        line,
      );
  }

  /** Removes a waiting line. */
  dequeue(line: QueueLine): void {
    const { waiting } = this;
    if (waiting[0] === line) waiting.shift();
    else waiting.splice(waiting.indexOf(line), 1);
  }

  /** Drops the last waiting line, which stays in storage, and returns it. */
  evictLast(): QueueLine | undefined {
    const line = this.waiting.pop();
    if (line === undefined) return undefined;
    const { due, at } = line;
    this.lines.delete(due.ordinal);
    this.leaveBehind(before(due), this.waitsUntil(line) ?? due.dueAt);
    if (this.#time.isImpossible(due)) this.searchAt = Math.min(this.searchAt, at);
    return line;
  }

  /** Returns until when a line waits that was given back for later than storage says, by the wall clock; else undefined. */
  waitsUntil({ due, at }: QueueLine): number | undefined {
    return at > this.#time.at(due) ? Math.max(due.dueAt, at + this.#time.ahead) : undefined;
  }

  /** Returns how long nothing of it may be claimed, ms: it is paused or held back. */
  pausedMs(): number {
    if (this.pauseEnds === 0 && this.holdEnds === 0) return 0;
    const left = Math.max(this.pauseEnds, this.holdEnds) - this.#time.monotonic();
    if (left > 0) return left;
    this.pauseEnds = 0;
    this.holdEnds = 0;
    return 0;
  }

  /** Returns when storage is to be read; infinity when it has no line that is not held. */
  storedAt(): number {
    if (this.behind === undefined) return Number.POSITIVE_INFINITY;
    return this.search !== undefined ? 0 : Math.min(this.behindAt - this.#time.ahead, this.searchAt);
  }

  /** Returns when the next line may be claimed, ignoring pauses; infinity without one. */
  firstAt(): number {
    return Math.min(this.waiting[0]?.at ?? Number.POSITIVE_INFINITY, this.behindAt - this.#time.ahead);
  }

  /** @param at when the next line may be claimed, ignoring pauses; @returns when it may be in spite of them */
  nextAt(at = this.firstAt()): number {
    const left = this.pausedMs();
    // Rounded up, because the wall clock counts whole milliseconds: a check that comes too early must be repeated.
    return left > 0 ? Math.max(this.#time.now() + Math.ceil(left), at) : at;
  }

  /** Returns true when a new line sorts after the held ones, so that storage may keep it. */
  isBehind(due: Due): boolean {
    if (this.behind === undefined || due.dueAt < this.behindAt) return false;
    return due.dueAt > this.behindAt || DUE.key(due) > this.behind;
  }

  /** Notes that storage has this line, wherever it sorts: a page that begins with it is read. */
  leaveInStorage(due: Due): void {
    this.leaveBehind(before(due), due.dueAt);
  }

  /** Notes that storage has more lines after `key`, the first of them due at `at`, wall-clock time, or later. */
  leaveBehind(key: string, at: number): void {
    if (this.behind === undefined || key < this.behind) this.behind = key;
    this.behindAt = Math.min(this.behindAt, at);
    // The first key and the soonest time may be of different lines: that with the first key may be given back for later.
    const { behind = key, at: leftAt = at } = this.#left ?? {};
    this.#left = { behind: key < behind ? key : behind, at: Math.min(at, leftAt) };
  }

  /** Begins the request of a page. Returns the key after which it starts. */
  startPage(): string | undefined {
    this.#left = undefined;
    return this.behind;
  }

  /** Ends the request of a page. `last` is its last key if there may be more: what is left to storage begins there, or sooner. */
  endPage(last: string | undefined): void {
    const left = this.#left;
    this.behind = undefined;
    this.behindAt = Number.POSITIVE_INFINITY;
    if (last !== undefined) this.leaveBehind(last, DUE.id(last).dueAt);
    if (left !== undefined) this.leaveBehind(left.behind, left.at);
  }
}

function precedes(a: QueueLine, b: QueueLine): boolean {
  return a.at < b.at || (a.at === b.at && a.due.ordinal < b.due.ordinal);
}

/** Returns the longest text below a line's key, so that a page read after it begins with that line. */
const before = (due: Due): string => DUE.key(due).slice(0, -1);
