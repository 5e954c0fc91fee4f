/**
 * Reads due lines from storage into the queue: a page where a subscription queue runs low, a sweep over all, and a search
 * for lines with impossible times. A clock that was ahead wrote those, so they sort after lines that are due later: every
 * subscription queue is searched once, and again after each step of the wall clock.
 */
import { DAMAGED } from "../../../core/model/kind.ts";
import { DUE } from "../../../core/model/schema.ts";
import type { Due } from "../../../core/model/delivery.ts";
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";
import type { SubscriptionQueue } from "./subscription-queue.ts";
import type { Timeline } from "./timeline.ts";
import type { WakeTimer } from "./wake-timer.ts";
import type { Window } from "./window.ts";

/** Lines read at once. */
const PAGE = 250;
/** Most lines of one subscription that a sweep takes. */
const SWEEP_SHARE = 100;
/** Pages that are read in a row, before other work gets a turn. */
const PAGES_A_TURN = 16;
/** How long to wait after a page could not be read, ms. */
const AGAIN_MS = 1_000;

export interface LinesInStorage {
  range(prefix: string, options?: RangeOptions): Promise<readonly Entry[]>;
  /** Returns the keys of due lines whose commits are under way: they may be readable, and still be lost. */
  unacknowledged?(): ReadonlySet<string>;
}

export class Feeder {
  readonly #storage: LinesInStorage;
  readonly #time: Timeline;
  readonly #window: Window;
  readonly #timer: WakeTimer;
  readonly #wanting = new Set<SubscriptionQueue>();
  /** Lines that storage no longer has, since the reads under way began. */
  readonly #gone = new Set<string>();
  /** Lines that a crash may still take back, so that none is claimed: who commits one adds it, or else the next sweep does. */
  #early: ReadonlySet<string> | undefined;
  #reading = 0;
  #feeding: Promise<void> | undefined;
  /** Made when a claim waits for the next page. */
  #awaited: PromiseWithResolvers<void> | undefined;
  #sweeping: Promise<number> = Promise.resolve(0);
  #swept = false;
  #closed = false;
  /** Steps of the wall clock that a search has been made for. */
  #steps = 0;

  constructor(storage: LinesInStorage, time: Timeline, window: Window, timer: WakeTimer) {
    this.#storage = storage;
    this.#time = time;
    this.#window = window;
    this.#timer = timer;
  }

  /** Returns true when every stored line is held, or known to come after those that are. */
  knowsAll(): boolean {
    return this.#swept && !this.#window.forgotten;
  }

  /** Notes that a subscription queue has room, and that storage has more of it. */
  wantsMore(queue: SubscriptionQueue): void {
    this.#wanting.add(queue);
  }

  /** Notes that storage no longer has this line: a page that is being read must not bring it back. */
  moved(due: Due): void {
    if (this.#reading > 0) this.#gone.add(DUE.key(due));
  }

  /** Begins to read pages in the background, where they are wanted. */
  refill(): void {
    this.searchAfterStep();
    if (this.#feeding !== undefined || (this.#wanting.size === 0 && !this.#shouldSweep())) return;
    this.#feeding = this.#feedAll().finally(() => {
      this.#feeding = undefined;
      this.#pageEnded();
    });
  }

  /** Resolves when the next page is held, or the last one is; undefined when nothing is being read. Never rejects. */
  nextPage(): Promise<void> | undefined {
    return this.#feeding && (this.#awaited ??= Promise.withResolvers()).promise;
  }

  /** Searches everywhere again if the wall clock was set: what is stored is due at another time then. */
  searchAfterStep(): void {
    this.#time.now();
    if (this.#time.steps === this.#steps) return;
    this.#steps = this.#time.steps;
    for (const queue of this.#window.queues.values()) {
      [queue.search, queue.searchAt] = [undefined, 0];
      this.#window.touch(queue);
    }
  }

  #shouldSweep(): boolean {
    return this.#window.forgotten && this.#window.free() > 0.5;
  }

  async #feedAll(): Promise<void> {
    let pages = 0;
    // Those that ask meanwhile are for the next time, so that this one ends.
    for (const queue of [...this.#wanting]) {
      if (this.#closed || this.#window.free() <= 0) break;
      this.#wanting.delete(queue);
      if (!this.#isKnown(queue)) continue;
      await this.#readOnce(queue).then(
        () => this.#timer.notify(),
        () => this.#timer.set(this.#time.now() + AGAIN_MS, queue),
      );
      if (++pages % PAGES_A_TURN === 0) await turn();
    }
    if (this.#shouldSweep() && !this.#closed) await this.sweep().catch(() => 0);
  }

  /** Reads a page of the search, if it is on, and a page of the lines in their order, if they are due or it is off. */
  async #readOnce(queue: SubscriptionQueue): Promise<void> {
    const isDue = !(await this.#searchOn(queue)) || queue.behindAt - this.#time.ahead <= this.#time.now();
    if (isDue && queue.behind !== undefined && this.#isKnown(queue)) await this.#readPage(queue);
  }

  async #readPage(queue: SubscriptionQueue): Promise<void> {
    const limit = Math.min(PAGE, this.#window.share());
    await this.#read(DUE.under({ subscriptionId: queue.id }), { after: queue.startPage(), limit }, (page) => {
      if (!this.#isKnown(queue)) return;
      queue.endPage(page.length < limit ? undefined : page.at(-1)?.key);
      for (const entry of page) {
        const due = this.#news(entry);
        // For lack of room the queue may be dropped, and another have its name.
        if (due !== undefined) this.#window.hold(this.#window.queueOf(queue.id), due, this.#time.at(due));
      }
      this.#window.touch(queue);
    });
  }

  /** Reads a page of the search, if it is time for one, and holds what it finds. @returns whether it was */
  async #searchOn(queue: SubscriptionQueue): Promise<boolean> {
    const time = this.#time;
    if (queue.search === undefined) {
      if (queue.searchAt > time.now()) return false;
      // Whatever is due is found without it.
      const dueAt = time.now() + time.ahead;
      queue.search = DUE.key({ subscriptionId: queue.id, dueAt, ordinal: "" });
      queue.searchAt = Number.POSITIVE_INFINITY;
    }
    const after = queue.search;
    await this.#read(DUE.under({ subscriptionId: queue.id }), { after, limit: PAGE }, (page) => {
      if (queue.search !== after) return; // The wall clock was set meanwhile.
      for (const entry of page) {
        const due = this.#news(entry);
        if (due !== undefined && time.isImpossible(due)) this.#window.hold(queue, due, time.at(due));
      }
      queue.search = page.length < PAGE ? undefined : page.at(-1)?.key;
      this.#window.touch(queue);
    });
    return true;
  }

  /** Reads everything, one sweep after the other. Resolves to the number of lines that the queue lacked. */
  sweep(): Promise<number> {
    const next = (): Promise<number> => this.#sweepAll();
    return (this.#sweeping = this.#sweeping.then(next, next));
  }

  async #sweepAll(): Promise<number> {
    this.#window.forgotten = false;
    this.#window.prune();
    const sweep: Sweep = { found: 0, queue: undefined, taken: 0, skipping: false };
    let after: string | undefined;
    while (!this.#closed) {
      const length = await this.#read(DUE.start, { after, limit: PAGE }, (page) => {
        for (const entry of page) this.#sweepOver(entry, sweep);
        const { queue, skipping } = sweep;
        after = skipping && queue !== undefined ? DUE.end({ subscriptionId: queue.id }) : page.at(-1)?.key;
        return page.length;
      });
      if (length < PAGE) break;
      // Many subscriptions make many pages: give other work a turn in between.
      await turn();
    }
    this.#noteWhole(sweep.queue);
    this.#swept = true;
    this.searchAfterStep();
    return sweep.found;
  }

  #sweepOver(entry: Entry, sweep: Sweep): void {
    const window = this.#window;
    const id = DUE.id(entry.key);
    if (id.subscriptionId !== sweep.queue?.id) {
      this.#noteWhole(sweep.queue);
      [sweep.queue, sweep.taken, sweep.skipping] = [window.queueOf(id.subscriptionId), 0, false];
    }
    if (sweep.skipping) return;
    const queue = window.queueOf(id.subscriptionId);
    if (sweep.taken >= Math.min(SWEEP_SHARE, window.share())) {
      // A complete queue reads on by itself.
      if (!queue.whole) queue.leaveBehind(entry.key.slice(0, -1), id.dueAt);
      sweep.skipping = true;
    } else {
      sweep.taken++;
      const due = this.#news(entry);
      if (due === undefined) return;
      if (!queue.isBehind(due)) {
        window.hold(queue, due, this.#time.at(due));
        sweep.found++;
      }
    }
    window.touch(queue);
  }

  /** Notes that a sweep has read all of it; a queue that was dropped meanwhile is not the one that has its name now. */
  #noteWhole(queue: SubscriptionQueue | undefined): void {
    if (queue !== undefined && this.#isKnown(queue) && !this.#window.forgotten) queue.whole = true;
  }

  /** Reads a page and passes it on in the same turn, while the lines that ended since the read began are still known. */
  async #read<T>(prefix: string, options: RangeOptions, use: (page: readonly Entry[]) => T): Promise<T> {
    this.#reading++;
    try {
      const page = await this.#storage.range(prefix, options);
      this.#early = this.#storage.unacknowledged?.();
      return use(page);
    } finally {
      this.#reading--;
      if (this.#reading === 0) this.#gone.clear();
      this.#pageEnded();
    }
  }

  #pageEnded(): void {
    this.#awaited?.resolve();
    this.#awaited = undefined;
  }

  /** Returns the line of an entry, if the queue does not hold it and it is sure to stay. */
  #news({ key, value }: Entry): Due | undefined {
    const due = DUE.read(value, key);
    // Not a due line; the check of stored data reports it.
    if (due === DAMAGED || this.#early?.has(key) === true || this.#gone.has(key)) return undefined;
    return this.#window.queues.get(due.subscriptionId)?.lines.has(due.ordinal) ? undefined : due;
  }

  #isKnown(queue: SubscriptionQueue): boolean {
    return this.#window.queues.get(queue.id) === queue;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#feeding;
    await this.#sweeping.catch(() => 0);
  }
}

interface Sweep {
  found: number;
  queue: SubscriptionQueue | undefined;
  /** Lines of the queue that it has passed. */
  taken: number;
  /** It goes on behind the queue. */
  skipping: boolean;
}

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
