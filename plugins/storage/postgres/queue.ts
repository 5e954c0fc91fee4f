/**
 * The shared queue: due deliveries in a table, for every node. The commit itself writes the lines; those that are due at once
 * are leased to their own node in it, which hands them out without another word, and gives them back to idle nodes.
 */
import { within } from "../../../core/lib/within.ts";
import { LeaseLostError, StorageError } from "../../../core/model/errors.ts";
import { DAMAGED } from "../../../core/model/kind.ts";
import type { Due } from "../../../core/model/delivery.ts";
import { DUE } from "../../../core/model/schema.ts";
import type { Change, ClaimRequest, Lease, Nodes, Queue, QueueDepth } from "../../../core/ports/storage.ts";
import { Alarm } from "./alarm.ts";
import { ints, texts } from "./arrays.ts";
import { type Birth, type Fence } from "./batch.ts";
import { Born } from "./born.ts";
import type { Channel } from "./channel.ts";
import { Leases } from "./leases.ts";
import { Lines, type LinesDeps } from "./lines.ts";
import type { Told, Writer } from "./writer.ts";

/** A line that nobody could take because another transaction has it is looked for again after this, ms. */
const BUSY_MS = 20;
/** An idle node asks the others for lines no more often, and waits for their answers no longer, ms. */
const SPARE_MS = 50;
const ANSWER_MS = 150;
/** The word of a cancel, for the other nodes. */
const CANCEL = "\u0000cancel ";
/** A node that answered for so long nothing no longer answers locally for its leases, ms. */
const SILENT_MS = 3_500;
/** No lease has it: an empty one stands for "leased by nobody". */
const NO_TOKEN = "\u0001";

interface QueueDeps extends LinesDeps {
  readonly writer: () => Pick<Writer, "commit">;
  readonly channel: () => Pick<Channel, "sure" | "others" | "listening">;
  readonly nodes: () => Pick<Nodes, "ask">;
  readonly node: string;
}

export class SharedQueue implements Queue, Told {
  readonly renewal;
  readonly #deps: QueueDeps;
  readonly #born = new Born();
  readonly #leases = new Leases();
  readonly #alarm: Alarm;
  readonly #lines: Lines;
  /** Subscriptions that had enough under way here when they were last looked at, and those that had room again since a claim began. */
  #blocked = new Set<string>();
  readonly #roomy = new Set<string>();
  /** Subscriptions that were not claimed from the table because their older lines are here. */
  readonly #behind = new Set<string>();
  /** Subscriptions that are paused or held, by the monotonic time at which that ends. */
  readonly #resting = new Map<string, number>();
  #orphans: Birth[] = [];
  #askedAt = Number.NEGATIVE_INFINITY;
  /** Called with each answer of another node that was asked for lines. */
  #spared: (() => void) | undefined;
  #claims = 0;

  constructor(deps: QueueDeps) {
    this.#deps = deps;
    this.#alarm = new Alarm(deps.clock, () => deps.channel().listening);
    this.#lines = new Lines(deps);
    this.renewal = {
      // One renewal may fail; a lease granted right after it is still renewed long before its end.
      everyMs: Math.floor(deps.leaseMs / 3),
      renew: async (leases: Iterable<Lease>): Promise<void> => void (await this.#renew([...leases])),
    };
  }

  /** The commit that wrote the lines has notified already. */
  add(): void {}

  bears(subscriptionId: string): boolean {
    return !this.#rests(subscriptionId) && this.#born.ask();
  }

  born(births: readonly Birth[], until: number): void {
    this.#born.answered();
    if (births.length === 0) return;
    const rests: Lease[] = [];
    for (const { lease, key } of births) {
      this.#leases.set(lease.token, key, until);
      if (this.#rests(lease.subscriptionId)) rests.push(lease);
      else this.#born.add(lease);
    }
    if (rests.length > 0) void this.#handBack(rests).catch(() => undefined);
    this.#alarm.ring();
  }

  orphaned(births: readonly Birth[]): void {
    this.#born.answered();
    this.#orphans.push(...births);
  }

  due(inMs: number): void {
    this.#alarm.noteDue(inMs);
  }

  /** Gives back what nobody knows of, and looks for the lines of nodes that have died. */
  async tend(dead: readonly string[]): Promise<void> {
    const orphans = this.#orphans.splice(0);
    if (orphans.length > 0) {
      const leases = orphans.map(({ lease }) => lease);
      await this.#lines
        .handBack(leases.map((lease) => [DUE.key(lease), lease.token]))
        .catch(() => void this.#orphans.push(...orphans));
      this.#alarm.noteDue(0);
    }
    for (const node of dead) if ((await this.#lines.bury(node)) > 0) this.#alarm.noteDue(0);
  }

  async claim(request: ClaimRequest): Promise<readonly Lease[]> {
    if (request.limit <= 0) return [];
    this.#alarm.begin();
    this.#roomy.clear();
    const busy = new Map(request.busy);
    const full = new Set<string>();
    const { due } = this.#alarm;
    const leases: Lease[] = [];
    const own = (most: number): void => {
      const taken = this.#born.take(most, request.perSubscription, busy, full);
      for (const lease of taken) {
        // Too old to be believed: it comes back by itself.
        if (this.#deps.clock.monotonic() < this.#leases.until(lease) - this.#deps.leaseMs / 3) leases.push(lease);
        if (this.#behind.has(lease.subscriptionId) && !this.#born.has(lease.subscriptionId)) this.#alarm.noteDue(0);
      }
    };
    // What waits in the table has its share.
    own(due ? Math.ceil(request.limit / 2) : request.limit);
    if (due) {
      try {
        await this.#claimShared(request, leases, busy, full);
      } catch (error) {
        this.#alarm.noteDue(0);
        if (leases.length === 0) throw error;
      }
      own(request.limit - leases.length);
    }
    // What stands in the table is not looked at each time.
    this.#blocked = due ? full : new Set([...this.#blocked, ...full]);
    for (const sub of this.#roomy) if (this.#blocked.delete(sub)) this.#alarm.noteDue(0);
    if (leases.length >= request.limit && this.#born.size > 0) this.#alarm.ring();
    return leases;
  }

  /** Claims from the table, and when it has nothing, from what other nodes have leased and not begun. */
  async #claimShared(
    request: ClaimRequest,
    leases: Lease[],
    busy: Map<string, number>,
    full: Set<string>,
  ): Promise<void> {
    const before = leases.length;
    await this.#claimTable(request, leases, busy, full);
    const { clock, channel } = { clock: this.#deps.clock, channel: this.#deps.channel() };
    if (leases.length > before || this.#born.size > 0 || channel.others === 0 || !channel.listening) return;
    if (clock.monotonic() < this.#askedAt + SPARE_MS) return;
    this.#askedAt = clock.monotonic();
    const answered = Promise.withResolvers<void>();
    let missing = channel.others;
    this.#spared = () => void (--missing <= 0 && answered.resolve());
    await this.#lines.bell(`g ${this.#deps.node} ${request.limit}`);
    await within(clock, ANSWER_MS, answered.promise);
    this.#spared = undefined;
    if (missing < channel.others) await this.#claimTable(request, leases, busy, full);
  }

  async #claimTable(
    { limit, perSubscription }: ClaimRequest,
    leases: Lease[],
    busy: Map<string, number>,
    full: Set<string>,
  ): Promise<void> {
    const { link, schema, clock, time, leaseMs, node } = this.#deps;
    // Lines that this node has already go before those of the same subscription in the table.
    const before = new Set(this.#born.subscriptions());
    const counts = [...busy].filter(([sub, count]) => count !== 0 && !before.has(sub));
    const subs = texts([...counts.map(([sub]) => sub), ...before]);
    const under = ints([...counts.map(([, count]) => count), ...[...before].map(() => perSubscription)]);
    const token = `${node}.c${(++this.#claims).toString(36)}`;
    let until = 0;
    const values = (): readonly unknown[] => {
      until = clock.monotonic() + leaseMs;
      return [...time.now(), limit - leases.length, perSubscription, leaseMs, token, subs, under];
    };
    // What comes in from now on rings again.
    this.#alarm.reads(undefined);
    const text = `select * from "${schema}".claim($1,$2,$3,$4,$5,$6,$7,$8)`;
    // A claim whose answer is lost has leased lines that nobody works on; they come back when the lease lapses.
    const [head, ...rows] = await link.run({ name: "claim", text, values }, { repeatable: false });
    const state = JSON.parse(head?.[1] ?? "{}") as ClaimState;
    this.#behind.clear();
    for (const sub of state.blocked ?? []) (before.has(sub) ? this.#behind : full).add(sub);
    for (const [key, value, held] of rows as [string, string, string][]) {
      const line = DUE.read(value, key);
      // One that is not ours: the check of stored data reports it, and it delays no other.
      if (line === DAMAGED) continue;
      this.#leases.set(held, key, until);
      busy.set(line.subscriptionId, (busy.get(line.subscriptionId) ?? 0) + 1);
      if ((busy.get(line.subscriptionId) ?? 0) >= perSubscription) full.add(line.subscriptionId);
      leases.push({ ...line, token: held });
    }
    if (state.next === null || state.next === undefined) return;
    const inMs = state.next - state.now;
    this.#alarm.noteDue(inMs <= 0 && rows.length === 0 ? BUSY_MS : inMs);
  }

  wake(signal: AbortSignal): Promise<void> {
    return this.#alarm.wait(signal);
  }

  /** Answers by itself while nobody can have taken the lease or ended it. */
  extend(lease: Lease): boolean | Promise<boolean> {
    const { clock, leaseMs, channel } = this.#deps;
    if (channel().sure && clock.monotonic() < this.#leases.until(lease) - leaseMs / 3) return true;
    return this.#renew([lease]).then((held) => held > 0);
  }

  async #renew(leases: readonly Lease[]): Promise<number> {
    const { clock, leaseMs } = this.#deps;
    const until = clock.monotonic() + leaseMs;
    const held = new Set(await this.#lines.renew(leases.map((lease) => [this.#leases.keyOf(lease), lease.token])));
    for (const lease of leases) {
      if (!held.has(lease.token)) this.#leases.end(lease.token);
      else if (this.#leases.until(lease) === 0) this.#leases.set(lease.token, this.#leases.keyOf(lease), until);
      else this.#leases.renewed(lease.token, until);
    }
    return held.size;
  }

  async settle(
    lease: Lease,
    changes: readonly Change[],
    then?: { readonly next?: Due; readonly keep?: Due },
  ): Promise<void> {
    const { token, subscriptionId } = lease;
    const fence = { key: this.#leases.keyOf(lease), token: token === "" ? NO_TOKEN : token };
    const keep = then?.keep === undefined ? undefined : DUE.key(then.keep);
    try {
      await this.#deps.writer().commit(changes, keep === undefined ? fence : { ...fence, keep });
    } catch (error) {
      if (error instanceof LeaseLostError) this.#leases.end(token);
      throw error;
    }
    if (keep === undefined) this.#leases.end(token);
    else this.#leases.moved(token, keep);
    this.#freed(subscriptionId);
  }

  async withdraw(line: Due, changes: readonly Change[]): Promise<boolean> {
    const own = this.#born.pick(line);
    const fence: Fence = { key: DUE.key(line), token: own?.token ?? "" };
    try {
      await this.#deps.writer().commit(changes, fence);
      if (own !== undefined) this.#leases.end(own.token);
      return true;
    } catch (error) {
      if (own !== undefined) {
        this.#born.add(own);
        this.#alarm.ring();
      }
      if (error instanceof LeaseLostError) return false;
      throw error;
    }
  }

  async release(lease: Lease, dueAt?: number): Promise<void> {
    const inMs = dueAt === undefined ? undefined : Math.max(0, dueAt - this.#deps.clock.now());
    const key = this.#leases.keyOf(lease);
    this.#leases.end(lease.token);
    await this.#lines.handBack([[key, lease.token]], inMs);
    this.#freed(lease.subscriptionId);
    this.#alarm.noteDue(inMs ?? 0);
  }

  pause(subscriptionId: string, ms: number): Promise<void> {
    return this.#rest(subscriptionId, ms, 0);
  }

  hold(subscriptionId: string, ms: number): Promise<void> {
    return this.#rest(subscriptionId, ms, 1);
  }

  async #rest(sub: string, ms: number, how: 0 | 1): Promise<void> {
    await this.rests(sub, ms);
    await this.#lines.rest(sub, ms, how);
    this.#alarm.noteDue(ms);
    if (this.#deps.channel().others > 0) await this.#lines.bell(`r ${this.#deps.node} ${sub} ${ms}`);
  }

  /** Hands out nothing of a subscription that rests, and gives back what waits here. */
  async rests(sub: string, ms: number): Promise<void> {
    if (ms > 0) this.#resting.set(sub, Math.max(this.#resting.get(sub) ?? 0, this.#deps.clock.monotonic() + ms));
    else this.#resting.delete(sub);
    const waiting = this.#born.drop(sub);
    if (waiting.length > 0) await this.#handBack(waiting);
  }

  #rests(sub: string): boolean {
    const until = this.#resting.get(sub);
    if (until === undefined) return false;
    if (this.#deps.clock.monotonic() < until) return true;
    this.#resting.delete(sub);
    return false;
  }

  async #handBack(leases: readonly Lease[]): Promise<void> {
    for (const { token } of leases) this.#leases.end(token);
    await this.#lines.handBack(leases.map((lease) => [DUE.key(lease), lease.token]));
    this.#alarm.noteDue(0);
  }

  /** Another node is idle: it gets what is leased here and not begun, once those who wait here had their turn. */
  async spare(limit: number): Promise<void> {
    for (let turn = 0; turn < 2; turn++) await new Promise((turned) => void setImmediate(turned));
    const leases = this.#born.take(limit, Number.POSITIVE_INFINITY, new Map(), new Set());
    try {
      if (leases.length > 0) await this.#handBack(leases);
    } finally {
      await this.#lines.bell(`h ${this.#deps.node} ${leases.length}`);
    }
  }

  rung([what, , sub = "", ms = "0"]: readonly string[]): void {
    if (what === "g") void this.spare(Number(sub)).catch(() => undefined);
    else if (what === "r") void this.rests(sub, Number(ms)).catch(() => undefined);
    else if (what === "h") this.#spared?.();
    else if (what === "d") this.#alarm.noteDue(Number(sub));
  }

  async cancel(subscriptionId: string): Promise<void> {
    this.#forget(subscriptionId);
    await this.#lines.cancel(subscriptionId);
    this.#forget(subscriptionId);
    // Other nodes must not believe in their leases any more.
    const wait = { mostMs: SILENT_MS, silentMs: SILENT_MS };
    await this.#deps.nodes().ask(CANCEL + subscriptionId, wait);
  }

  async heard(word: string): Promise<void> {
    if (word.startsWith(CANCEL)) this.#forget(word.slice(CANCEL.length));
  }

  #forget(subscriptionId: string): void {
    this.#born.drop(subscriptionId);
    this.#resting.delete(subscriptionId);
    this.#leases.endAll(subscriptionId);
  }

  async sweep(): Promise<number> {
    const found = await this.#lines.revive();
    if (found > 0) this.#alarm.noteDue(0);
    return found;
  }

  pending(subscriptionIds: readonly string[]): Promise<number> {
    return this.#lines.count(subscriptionIds);
  }

  async depth(): Promise<QueueDepth> {
    const { lines, leased, oldest } = await this.#lines.depth();
    const waits = Math.min(this.#born.size, leased);
    const times = [oldest, this.#born.oldest()].filter((at) => at !== undefined);
    const depth = { waiting: Math.max(0, lines - leased + waits), leased: leased - waits };
    return { ...depth, oldestDueAt: times.length === 0 ? undefined : Math.min(...times) };
  }

  /** Ends every wait, and gives back what was not begun. */
  async close(): Promise<void> {
    this.#alarm.close();
    const waiting = this.#born.subscriptions().flatMap((sub) => this.#born.drop(sub));
    if (waiting.length === 0) return;
    await this.#handBack(waiting).catch((error: unknown) => {
      if (!(error instanceof StorageError)) throw error;
    });
    await this.#lines.bell(`d ${this.#deps.node} 0`).catch(() => undefined);
  }

  /** Notes that a subscription which had enough under way here has room again, as soon as the caller has updated its counts. */
  #freed(subscriptionId: string): void {
    this.#roomy.add(subscriptionId);
    if (this.#blocked.delete(subscriptionId)) setImmediate(() => this.#alarm.noteDue(0));
  }
}

interface ClaimState {
  readonly now: number;
  readonly next: number | null;
  readonly blocked: readonly string[] | null;
}
