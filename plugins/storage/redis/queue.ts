/** The shared queue: due deliveries on Redis, for every node. The commit itself writes the index. */
import { DAMAGED } from "../../../core/model/kind.ts";
import { DUE } from "../../../core/model/schema.ts";
import type { Due } from "../../../core/model/delivery.ts";
import { LeaseLostError } from "../../../core/model/errors.ts";
import { Waiters } from "../../../core/lib/waiters.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Change, ClaimRequest, Lease, Queue, QueueDepth } from "../../../core/ports/storage.ts";
import type { Calls } from "./calls.ts";
import type { Channel } from "./channel.ts";
import { CANCEL, CLAIM, DEPTH, PAUSE, PENDING, RELEASE, RENEW, SWEEP } from "./queue-lua.ts";
import type { Script } from "./script.ts";
import type { TimeArgument } from "./time-argument.ts";
import type { Writer } from "./writer.ts";

/** Longest time between two claims, in case a message is lost, ms. */
const LONGEST_WAIT_MS = 5_000;
/** …and while no messages can arrive, ms. */
const DEAF_WAIT_MS = 250;
const SWEEP_PAGE = 500;
/** Subscriptions whose lines are counted in one call. */
const PENDING_GROUP = 1_000;
/** Leases renewed by one script. */
const RENEWED = 500;

interface SharedQueueDeps {
  readonly calls: Pick<Calls, "run">;
  readonly writer: Pick<Writer, "extend" | "settle" | "withdraw">;
  readonly clock: Clock;
  readonly time: TimeArgument;
  readonly leaseMs: number;
  readonly node: string;
  readonly channel: Pick<Channel, "atEpoch" | "listening">;
}

export class SharedQueue implements Queue {
  readonly renewal;
  readonly #deps: SharedQueueDeps;
  readonly #waiters = new Waiters();
  #closed = false;
  #timer: AbortController | undefined;
  #rung = true;
  /** This process's time at which something known may be due. */
  #nextAt = 0;
  /** Subscriptions that had enough under way here at the last claim. */
  #blocked: ReadonlySet<string> = new Set();
  #unique = 0;

  constructor(deps: SharedQueueDeps) {
    this.#deps = deps;
    // One renewal may fail; a lease granted right after it is still renewed long before its end.
    this.renewal = {
      everyMs: Math.floor(deps.leaseMs / 3),
      renew: (leases: Iterable<Lease>) => this.#renew([...leases]),
    };
  }

  /** The commit that wrote the lines has notified already. */
  add(): void {}

  async claim({ limit, perSubscription, busy }: ClaimRequest): Promise<readonly Lease[]> {
    if (limit <= 0) return [];
    const { calls, clock, time, leaseMs, channel } = this.#deps;
    this.#rung = false;
    const under = [...busy].filter(([, count]) => count !== 0).flat();
    const args = [time.now(), limit, perSubscription, leaseMs, this.#token(), LONGEST_WAIT_MS, ...under];
    const sentAt = clock.monotonic();
    // A claim whose answer is lost has leased lines that nobody works on; they come back when the lease lapses.
    const reply = (await calls.run(CLAIM, args, { repeatable: false })) as ClaimReply;
    time.noted(sentAt);
    const [serverNow, next, full, epoch, ...rows] = reply;
    // Changes that were missed are read again before anything begins.
    channel.atEpoch(epoch);
    this.#blocked = new Set(full);
    this.#nextAt = next < 0 ? Number.POSITIVE_INFINITY : clock.now() + Math.max(0, next - serverNow);
    if (next >= 0 && next <= serverNow) this.#rung = true;
    return rows.flatMap(leaseOf);
  }

  wake(signal: AbortSignal): Promise<void> {
    if (this.#rung || this.#closed) return Promise.resolve();
    const woken = this.#waiters.wait(signal);
    this.#arm();
    return woken;
  }

  /** Notes that something will be due in this many ms; 0: now. */
  noteDue(inMs: number): void {
    if (inMs <= 0) return this.#notify();
    this.#nextAt = Math.min(this.#nextAt, this.#deps.clock.now() + inMs);
    this.#arm();
  }

  #notify(): void {
    this.#rung = true;
    this.#timer?.abort();
    this.#waiters.wake();
  }

  /** Sets the one timer for all waits. It fires from time to time in any case, in case a message is lost. */
  #arm(): void {
    const { clock, channel } = this.#deps;
    this.#timer?.abort();
    if (this.#waiters.size === 0) return;
    this.#timer = new AbortController();
    const longest = clock.now() + (channel.listening ? LONGEST_WAIT_MS : DEAF_WAIT_MS);
    clock.sleep(Math.min(this.#nextAt, longest), this.#timer.signal).then(
      () => this.#notify(),
      () => {},
    );
  }

  /** Notes that a subscription which had enough under way here has room again, as soon as the caller has updated its counts. */
  #freed(subscriptionId: string): void {
    if (this.#blocked.has(subscriptionId)) setImmediate(() => this.#notify());
  }

  extend({ subscriptionId, ordinal, token }: Lease): Promise<boolean> {
    return this.#deps.writer.extend([subscriptionId, ordinal, token, this.#deps.leaseMs]);
  }

  async #renew(leases: readonly Lease[]): Promise<void> {
    const { calls, time, leaseMs } = this.#deps;
    for (let i = 0; i < leases.length; i += RENEWED) {
      const some = leases.slice(i, i + RENEWED);
      const held = some.flatMap(({ subscriptionId, ordinal, token }) => [subscriptionId, ordinal, token]);
      await calls.run(RENEW, [time.now(), leaseMs, ...held]);
    }
  }

  async settle(
    { subscriptionId, ordinal, token }: Lease,
    changes: readonly Change[],
    then?: { readonly keep?: Due },
  ): Promise<void> {
    const keep = then?.keep === undefined ? "" : lineOf(then.keep);
    await this.#deps.writer.settle([subscriptionId, ordinal, token, keep, this.#deps.leaseMs], changes);
    this.#freed(subscriptionId);
  }

  async withdraw(line: Due, changes: readonly Change[]): Promise<boolean> {
    try {
      await this.#deps.writer.withdraw([line.subscriptionId, line.ordinal, lineOf(line)], changes);
      return true;
    } catch (error) {
      if (error instanceof LeaseLostError) return false;
      throw error;
    }
  }

  async release({ subscriptionId, ordinal, token }: Lease, dueAt?: number): Promise<void> {
    const { calls, clock, time } = this.#deps;
    const inMs = dueAt === undefined ? "" : Math.max(0, dueAt - clock.now());
    await calls.run(RELEASE, [time.now(), subscriptionId, ordinal, token, inMs]);
    this.#freed(subscriptionId);
    this.noteDue((dueAt ?? 0) - clock.now());
  }

  pause(subscriptionId: string, ms: number): Promise<void> {
    return this.#rest(subscriptionId, ms, "pause");
  }

  hold(subscriptionId: string, ms: number): Promise<void> {
    return this.#rest(subscriptionId, ms, "hold");
  }

  async #rest(subscriptionId: string, ms: number, how: "pause" | "hold"): Promise<void> {
    await this.#run(PAUSE, subscriptionId, ms, how);
    if (ms <= 0) this.#notify();
  }

  async cancel(subscriptionId: string): Promise<void> {
    await this.#run(CANCEL, subscriptionId, this.#token());
  }

  async sweep(): Promise<number> {
    let [found, more, after, began] = [0, 0, "", ""];
    do {
      [more, after, began] = (await this.#run(SWEEP, after, SWEEP_PAGE, began)) as [number, string, string];
      found += more;
    } while (after !== "");
    if (found > 0) this.#notify();
    return found;
  }

  async pending(subscriptionIds: readonly string[]): Promise<number> {
    let lines = 0;
    for (let i = 0; i < subscriptionIds.length; i += PENDING_GROUP) {
      lines += (await this.#run(PENDING, ...subscriptionIds.slice(i, i + PENDING_GROUP))) as number;
    }
    return lines;
  }

  async depth(): Promise<QueueDepth> {
    const [lines, leased, oldest] = (await this.#run(DEPTH)) as [number, number, number];
    return { waiting: Math.max(0, lines - leased), leased, oldestDueAt: oldest < 0 ? undefined : oldest };
  }

  close(): void {
    this.#closed = true;
    this.#notify();
  }

  #run(one: Script, ...args: readonly (string | number)[]): Promise<unknown> {
    return this.#deps.calls.run(one, [this.#deps.time.now(), ...args]);
  }

  /** Returns a text that no other call of any node has. */
  #token(): string {
    return `${this.#deps.node}.${++this.#unique}`;
  }
}

/** Returns the due line without its subscription, as the queue's sets have it. */
const lineOf = (due: Due): string => DUE.key(due).slice(DUE.under({ subscriptionId: due.subscriptionId }).length);

type ClaimReply = [now: number, next: number, blocked: string[], epoch: string, ...leases: Claimed[]];
type Claimed = [sub: string, line: string, value: string, token: string];

/** Returns nothing for a line that is not ours: the check of stored data reports it, and it delays no other. */
function leaseOf([subscriptionId, line, value, token]: Claimed): readonly Lease[] {
  const due = DUE.read(value, DUE.under({ subscriptionId }) + line);
  return due === DAMAGED ? [] : [{ ...due, token }];
}
