/** The queue of one process: leases, which are tokens in memory, over a window of the due lines in storage. */
import { DUE } from "../../../core/model/schema.ts";
import type { Due } from "../../../core/model/delivery.ts";
import { LeaseLostError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Change, ClaimRequest, Lease, Queue, QueueDepth } from "../../../core/ports/storage.ts";
import { Feeder, type LinesInStorage } from "./feeder.ts";
import type { QueueLine, SubscriptionQueue } from "./subscription-queue.ts";
import { Timeline } from "./timeline.ts";
import { WakeTimer } from "./wake-timer.ts";
import { Window } from "./window.ts";

/** A subscription queue with fewer lines than this reads more from storage. */
const LOW = 64;

interface QueueStorage extends LinesInStorage {
  /** With `soon` it may wait a few ms for other commits. */
  commit(changes: readonly Change[], soon?: boolean): Promise<void>;
  /** Returns how many due lines there are, where the storage keeps count. */
  stored?(): number | undefined;
  /** Returns how many keys start with the prefix. */
  count(prefix: string): Promise<number>;
}

export class EmbeddedQueue implements Queue {
  readonly #storage: QueueStorage;
  readonly #time: Timeline;
  readonly #timer: WakeTimer;
  readonly #window: Window;
  readonly #feeder: Feeder;
  #leased = 0;
  #tokens = 0;

  /** @param size most lines that wait in memory */
  constructor(storage: QueueStorage, clock: Clock, size = 10_000) {
    this.#storage = storage;
    this.#time = new Timeline(clock);
    this.#timer = new WakeTimer(this.#time, (queue) => {
      this.#feeder.searchAfterStep();
      this.#window.touch(queue);
    });
    this.#window = new Window(this.#time, this.#timer, size);
    this.#feeder = new Feeder(storage, this.#time, this.#window, this.#timer);
  }

  add(dues: readonly Due[]): void {
    for (const due of dues) this.#add(due);
  }

  #add(due: Due): void {
    const queue = this.#window.queueOf(due.subscriptionId);
    const known = queue.lines.get(due.ordinal);
    if (known !== undefined) {
      if (known.token !== undefined) return;
      this.#window.take(known);
      queue.lines.delete(due.ordinal);
    }
    if (queue.isBehind(due)) queue.leaveInStorage(due);
    else this.#window.hold(queue, due, this.#time.at(due));
    this.#window.touch(queue);
  }

  lend(due: Due): Lease | undefined {
    const now = this.#time.now();
    this.#timer.check(now);
    // Those that have enough under way wait for their own deliveries, not for a claim.
    if (this.#window.ready.size > this.#window.blocked.size || !this.#feeder.knowsAll()) return undefined;
    const queue = this.#window.queueOf(due.subscriptionId);
    const first = Math.min(queue.firstAt(), queue.storedAt());
    if (first <= now || this.#time.at(due) > now || queue.pausedMs() > 0) return undefined;
    // A page that was read since the commit has brought it.
    if (queue.lines.has(due.ordinal)) return undefined;
    return this.#lease(queue.add(due, now));
  }

  empty(): boolean {
    return this.#window.ready.size === 0 && this.#feeder.knowsAll();
  }

  async claim(request: ClaimRequest): Promise<readonly Lease[]> {
    this.#timer.reset();
    const claimed: Lease[] = [];
    const taken = new Map<string, number>();
    this.#take(request, taken, claimed);
    this.#feeder.refill();
    // The lines of a page do not wait for the pages of all others.
    for (let page; claimed.length === 0 && (page = this.#feeder.nextPage()) !== undefined;) {
      await page;
      this.#take(request, taken, claimed);
    }
    if (claimed.length >= request.limit && this.#window.ready.size > 0) this.#timer.notify();
    return claimed;
  }

  #take({ limit, perSubscription, busy }: ClaimRequest, taken: Map<string, number>, into: Lease[]): void {
    const window = this.#window;
    const now = this.#time.now();
    this.#timer.check(now);
    // A queue that gave a line goes to the end and is served again; one that is skipped stays and is not.
    for (const queue of window.ready) {
      if (into.length >= limit) return;
      const open = queue.pausedMs() === 0;
      const line = open ? queue.waiting[0] : undefined;
      if (line === undefined || line.at > now) {
        if (open && queue.storedAt() <= now) this.#feeder.wantsMore(queue);
        else window.touch(queue);
        continue;
      }
      const own = taken.get(queue.id) ?? 0;
      if ((busy.get(queue.id) ?? 0) + own >= perSubscription) {
        window.blocked.add(queue);
        continue;
      }
      taken.set(queue.id, own + 1);
      window.take(line);
      into.push(this.#lease(line));
      if (queue.waiting.length < LOW && queue.behind !== undefined) this.#feeder.wantsMore(queue);
      window.blocked.delete(queue);
      window.ready.delete(queue);
      window.ready.add(queue);
    }
  }

  wake(signal: AbortSignal): Promise<void> {
    return this.#timer.wait(signal);
  }

  extend(lease: Lease): boolean {
    return this.#held(lease) !== undefined;
  }

  async settle(
    lease: Lease,
    changes: readonly Change[],
    { next, keep }: { readonly next?: Due; readonly keep?: Due } = {},
  ): Promise<void> {
    const line = this.#held(lease);
    if (line === undefined || line.settling) throw new LeaseLostError();
    line.settling = true;
    // Nobody waits for a plain end, unless something waits for the room that it makes, and nobody for a later attempt.
    const hasTime = (next ?? keep) !== undefined || this.#window.ready.size === 0;
    try {
      await this.#commit(line.queue, changes, line.due.order === undefined && hasTime);
    } finally {
      line.settling = false;
    }
    // Cancelled meanwhile: the commit stands, and the lease is lost.
    if (line.token !== lease.token) return;
    if (keep !== undefined) {
      this.#feeder.moved(line.due);
      line.due = keep;
      // It waits, so that another of its subscription may go on.
      this.#unblock(line.queue);
      return;
    }
    this.#end(line);
    if (next !== undefined) this.#add(next);
  }

  /** While the commit runs, the line is leased to nobody, so that no claim or page gives it to a node. */
  async withdraw(due: Due, changes: readonly Change[], next?: Due): Promise<boolean> {
    const queue = this.#window.queueOf(due.subscriptionId);
    const known = queue.lines.get(due.ordinal);
    if (known?.token !== undefined) return false;
    if (known !== undefined) this.#window.take(known);
    const line = known ?? queue.add(due, this.#time.at(due));
    const { token } = this.#lease(line);
    let done = false;
    try {
      await this.#commit(queue, changes, false);
      done = true;
    } finally {
      // Otherwise its subscription was cancelled meanwhile, and the queue has forgotten all of it.
      if (line.token === token) {
        this.#end(line);
        if (done && next !== undefined) this.#add(next);
        else if (!done && known !== undefined) this.#window.hold(queue, known.due, known.at);
        else if (!done) queue.leaveInStorage(due);
        this.#window.touch(queue);
      }
    }
    return true;
  }

  async release(lease: Lease, dueAt?: number): Promise<void> {
    const line = this.#held(lease);
    if (line === undefined) return;
    const { queue, due } = line;
    queue.lines.delete(due.ordinal);
    this.#leased--;
    const now = dueAt === undefined;
    this.#window.hold(queue, due, now ? Math.min(this.#time.at(due), this.#time.now()) : this.#time.soon(dueAt));
    this.#unblock(queue);
    this.#window.touch(queue);
  }

  async cancel(subscriptionId: string): Promise<void> {
    const queue = this.#window.queues.get(subscriptionId);
    if (queue === undefined) return;
    this.#window.drop(queue);
    this.#leased -= queue.lines.size - queue.waiting.length;
    for (const line of queue.lines.values()) line.token = undefined;
    await Promise.allSettled(queue.commits);
  }

  async pause(subscriptionId: string, ms: number): Promise<void> {
    this.#rest("pauseEnds", subscriptionId, ms);
  }

  async hold(subscriptionId: string, ms: number): Promise<void> {
    this.#rest("holdEnds", subscriptionId, ms);
  }

  /** Keeps the subscription queue from claims for so long from now on; with 0 no longer. */
  #rest(ends: "pauseEnds" | "holdEnds", id: string, ms: number): void {
    const queue = ms > 0 ? this.#window.queueOf(id) : this.#window.queues.get(id);
    if (queue === undefined) return;
    queue[ends] = ms > 0 ? this.#time.monotonic() + ms : 0;
    this.#window.touch(queue);
  }

  sweep(): Promise<number> {
    return this.#feeder.sweep();
  }

  async depth(): Promise<QueueDepth> {
    const now = this.#time.now();
    let oldest: number | undefined;
    let all = this.#feeder.knowsAll();
    for (const queue of this.#window.queues.values()) {
      const at = queue.firstAt();
      // A paused line waits by intent: it is not late.
      if (at <= now && queue.pausedMs() === 0 && (oldest === undefined || at < oldest)) oldest = at;
      if (queue.behind !== undefined) all = false;
    }
    const known = this.#window.waiting;
    const leased = this.#leased;
    const waiting = all ? known : Math.max(known, (this.#storage.stored?.() ?? 0) - leased);
    return { waiting, leased, oldestDueAt: oldest === undefined ? undefined : oldest + this.#time.ahead };
  }

  async pending(subscriptionIds: readonly string[]): Promise<number> {
    let lines = 0;
    for (const id of subscriptionIds) lines += await this.#storage.count(DUE.under({ subscriptionId: id }));
    return lines;
  }

  /** Ends every wait and every background read. */
  async close(): Promise<void> {
    this.#timer.close();
    await this.#feeder.close();
  }

  /** Commits changes of lines of the subscription queue: a cancel of it waits for that. */
  async #commit(queue: SubscriptionQueue, changes: readonly Change[], soon: boolean): Promise<void> {
    const done = this.#storage.commit(changes, soon);
    queue.commits.add(done);
    try {
      await done;
    } finally {
      queue.commits.delete(done);
    }
  }

  /** Leases the line, so that no claim and no page that is read gives it to anybody else. */
  #lease(line: QueueLine): Lease {
    this.#leased++;
    line.token = String(++this.#tokens);
    return { ...line.due, token: line.token };
  }

  #held({ subscriptionId, ordinal, token }: Lease): QueueLine | undefined {
    const line = this.#window.queues.get(subscriptionId)?.lines.get(ordinal);
    return line?.token === token ? line : undefined;
  }

  /** Ends the lease: the line is gone from the queue. */
  #end(line: QueueLine): void {
    line.queue.lines.delete(line.due.ordinal);
    this.#leased--;
    this.#feeder.moved(line.due);
    this.#unblock(line.queue);
  }

  /** Notes that the subscription has room for another under way, once the caller has updated its counts. */
  #unblock(queue: SubscriptionQueue): void {
    if (this.#window.blocked.delete(queue)) setImmediate(() => this.#timer.notify());
  }
}
