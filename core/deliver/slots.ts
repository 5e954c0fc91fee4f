/**
 * Shares out slots: how many attempts may be in flight, in all and per subscription, so that nobody is starved.
 *
 * - Slow and unknown receivers hold half of all slots at most, so that a quick one finds a slot at once.
 * - A key or an origin holds a few times as many slots as are left, so that others always find some.
 * - A subscription has a bound of its own, which adapts to its receiver. Beyond the first few slots it holds no more than
 *   are left: one alone holds half of all, each of two a third.
 * - The queue holds back what does not fit. Of those that wait, the next is the one that costs others the least.
 */
import { BoundedMap } from "../lib/bounded-map.ts";
import { Waiters } from "../lib/waiters.ts";
import { isFanoutQueue } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Lease } from "../ports/storage.ts";
import { adapt, average, learn, newParty, newReceiver, originOf, StopWatch, Waiting } from "./receivers.ts";
import { QUICK, RECOVERING, SLOW, SLOW_MS, UNKNOWN, type Party, type Receiver } from "./receivers.ts";

/** Slots of a subscription at first, and while it is unknown or recovering. */
const FIRST = 16;
const TRIAL = 4;
/** The largest part of all slots that a band holds, the unknown one together with the slow one. */
const SHARES = [1, 1 / 8, 1 / 2, 7 / 16] as const;
/** A key or an origin holds at most this many times the slots that are left: of all, and of those for slow ones. */
const QUICK_REACH = 7;
const SLOW_REACH = 3;
/** Subscriptions, and keys or origins, that are remembered. */
const [RECEIVERS, PARTIES] = [20_000, 10_000];
/** A promised slot that nobody fetched is free again after this long, ms. */
const PROMISE_MS = 2_000;
/**
 * How long the queue holds back a waiting subscription, ms; lifted as soon as there is a slot. Quick ones are held back for
 * at least a millisecond for each that waits: however many wait, about a thousand a second come again by themselves.
 */
const QUICK_HOLD_MS = 100;
const SLOW_HOLD_MS = 10_000;
/** Slow subscriptions that are remembered as waiting. While there are so many, others come again by themselves. */
const MOST_SLOW = 10_000;
/** Stands for what the queue holds back, among those that wait for the slots of a subscription. */
const HELD_BACK = "held back";

/** One delivery's right to have a request in flight. */
export interface Slot {
  /** The attempt is sent to this URL now. */
  toward(url: string): void;
  /** The attempt has ended. `well`: by a response below 500 that is no 429. */
  took(well: boolean): void;
  /** Gives it back; a second call does nothing. */
  give(): void;
  /**
   * Gives the slot back before a success is stored, so that sending does not wait for the disk. Returns false, and
   * keeps the slot, while as many results wait to be stored as the subscription, or all, may have slots: this bounds what
   * is sent again after a crash.
   */
  giveEarly(): boolean;
  /** The result of an attempt that gave its slot back early is stored, or never will be. */
  stored(): void;
}

type SlotRequest = Pick<Lease, "subscriptionId" | "keyId">;

interface SlotsOptions {
  readonly total: number;
  /** Most slots of each subscription; undefined: as many as its receiver keeps up with. */
  readonly perSubscription: number | undefined;
  readonly clock: Clock;
  /** Tells the queue to stop holding back this subscription. */
  readonly lift: (subscriptionId: string) => void;
}

export type Slots = Omit<SlotTable, "began" | "ended" | "give" | "stores">;

export const createSlots = (options: SlotsOptions): Slots => new SlotTable(options);

class SlotTable {
  /** The `perSubscription` of a claim: what may be under way of a subscription of which nothing is. */
  readonly perSubscription: number;
  /** Makes a claim find no more of each subscription than fits: `perSubscription` less what more may be under way. */
  readonly busy: Map<string, number> = new Map();
  readonly #options: SlotsOptions;
  readonly #caps: readonly number[];
  readonly #largest: number;
  /** Slots held in each band, in the unknown and the slow one, and free ones. */
  readonly #held = SHARES.map(() => 0);
  #heldSlow = 0;
  #free: number;
  readonly #keys = new BoundedMap<Party>(PARTIES, isIdle);
  readonly #origins = new BoundedMap<Party>(PARTIES, isIdle);
  readonly #receivers = new BoundedMap<Receiver>(RECEIVERS, isForgettable);
  /** Attempts in flight that do not count as slow yet, oldest first. */
  readonly #young = new Set<HeldSlot>();
  readonly #waiting = new Waiting();
  /** Slots for subscriptions that the queue no longer holds back, oldest first. */
  readonly #promised = new Map<Receiver, { readonly slot: HeldSlot; readonly at: number }>();
  readonly #watchers = new Waiters();
  readonly #watch: StopWatch;
  #storing = 0;
  #given = 0;

  constructor(options: SlotsOptions) {
    const { total, perSubscription } = options;
    this.#options = options;
    this.#free = total;
    this.#watch = new StopWatch(options.clock, () => this.#free < total);
    this.perSubscription = perSubscription ?? Math.min(FIRST, total);
    this.#largest = perSubscription ?? Math.max(this.perSubscription, Math.floor(total / 2));
    this.#caps = SHARES.map((share) => Math.max(1, Math.ceil(total * share)));
  }

  /** Returns the free slots in all. Promised ones are free for those that fetch them. */
  free(): number {
    return this.#free + this.#promised.size;
  }

  /** Returns how often a slot was given back so far. */
  given(): number {
    return this.#given;
  }

  /** Returns true when it is known, and answers in less than a second on average. */
  isQuick(subscriptionId: string): boolean {
    return this.#receivers.get(subscriptionId)?.band === QUICK;
  }

  /** Returns a slot, if there is one at once and nobody waits who would be delayed by that. */
  tryTake(to: SlotRequest): Slot | undefined {
    this.#look();
    const receiver = this.#receiverOf(to);
    const delays = this.#waiting.quick.size > 0 || (receiver.band !== QUICK && this.#waiting.slow.size > 0);
    if (delays || this.#promised.has(receiver)) return undefined;
    return this.#fits(receiver) ? this.#take(receiver) : undefined;
  }

  /**
   * Returns a slot for a claimed delivery, or how long the queue holds back its subscription, ms, before the delivery
   * goes back unharmed. 0: enough of it is under way, and frees its slots when it ends.
   */
  admit(to: SlotRequest): Slot | number {
    if (isFanoutQueue(to.subscriptionId)) return this.#fanout(to.subscriptionId);
    this.#look();
    const receiver = this.#receiverOf(to);
    const promised = this.#promised.get(receiver);
    if (promised !== undefined) {
      this.#promised.delete(receiver);
      this.#report(receiver);
      return promised.slot;
    }
    if (this.#fits(receiver)) {
      if (receiver.waiters !== undefined) this.#waiting.part(receiver, HELD_BACK);
      return this.#take(receiver);
    }
    this.#report(receiver);
    if (receiver.held >= this.#most(receiver)) return 0;
    if (receiver.waiters !== undefined || this.#waiting.slow.size < MOST_SLOW)
      this.#waiting.join(receiver, HELD_BACK, () => this.#promise(receiver));
    return receiver.band < UNKNOWN ? Math.max(QUICK_HOLD_MS, this.#waiting.quick.size) : SLOW_HOLD_MS;
  }

  /**
   * Waits for a slot; waiters come before new claims. Resolves to `undefined` when it may take long: then the delivery
   * goes back.
   * @throws the signal's reason
   */
  async wait(to: SlotRequest, signal: AbortSignal): Promise<Slot | undefined> {
    signal.throwIfAborted();
    this.#look();
    const receiver = this.#receiverOf(to);
    if (this.#fits(receiver)) return this.#take(receiver);
    if (receiver.band !== QUICK) return undefined;
    return await new Promise<Slot>((resolve, reject) => {
      const stop = (): void => {
        this.#waiting.part(receiver, stop);
        reject(signal.reason as Error);
      };
      this.#waiting.join(receiver, stop, () => {
        signal.removeEventListener("abort", stop);
        resolve(this.#take(receiver));
      });
      signal.addEventListener("abort", stop, { once: true });
    });
  }

  /** Resolves when a slot is given back next, or `signal` aborts. */
  freed(signal: AbortSignal): Promise<void> {
    return this.#watchers.wait(signal);
  }

  /** The attempt of a slot is sent to this URL now. */
  began(slot: HeldSlot, url: string): void {
    const { receiver } = slot;
    if (receiver.url !== url) {
      const name = originOf(url);
      receiver.url = url;
      receiver.origin = this.#origins.get(name) ?? this.#origins.add(name, newParty());
    }
    if (slot.origin !== receiver.origin) {
      this.#count(slot, -1);
      slot.origin = receiver.origin;
      this.#count(slot, 1);
    }
    slot.since = this.#watch.now();
    if (slot.band !== SLOW) this.#young.add(slot);
  }

  /** The attempt of a slot has ended. */
  ended(slot: HeldSlot, well: boolean): void {
    const { receiver, origin, since } = slot;
    const now = this.#watch.now();
    const ms = Math.max(0, now - (since ?? now));
    this.#young.delete(slot);
    if (origin !== undefined) average(origin, ms);
    learn(receiver, ms);
    if (receiver.waiters !== undefined) this.#waiting.moved(receiver);
    adapt(receiver, ms, well, this.perSubscription, this.#largest);
  }

  give(slot: HeldSlot): void {
    // Slow ones are only looked at when this may be what they lacked.
    const alsoSlow = slot.band >= UNKNOWN || this.#free <= 0;
    this.#young.delete(slot);
    this.#count(slot, -1);
    this.#given++;
    this.#report(slot.receiver);
    if (this.#waiting.quick.size + this.#waiting.slow.size > 0) this.#promote(alsoSlow);
    if (this.free() > 0) this.#watchers.wake();
  }

  /** Counts results that wait to be stored without a slot. @returns false when one more would be too many */
  stores(receiver: Receiver, by: 1 | -1): boolean {
    if (by > 0 && (receiver.storing >= receiver.bound || this.#storing >= this.#options.total)) return false;
    receiver.storing += by;
    this.#storing += by;
    return true;
  }

  #receiverOf({ subscriptionId, keyId }: SlotRequest): Receiver {
    const known = this.#receivers.get(subscriptionId);
    if (known !== undefined) return known;
    const key = this.#keys.get(keyId) ?? this.#keys.add(keyId, newParty());
    return this.#receivers.add(subscriptionId, newReceiver(subscriptionId, key, this.perSubscription));
  }

  /** Returns the free slots for receivers in a band. */
  #left(band: number): number {
    const left = Math.min(this.#free, (this.#caps[band] as number) - (this.#held[band] as number));
    // Quick ones that hang count as slow, so there may be more than their part.
    return band < UNKNOWN ? left : Math.min(left, (this.#caps[UNKNOWN] as number) - this.#heldSlow);
  }

  /** Returns the most slots that it may hold now. */
  #most(receiver: Receiver): number {
    const { band, bound } = receiver;
    const first = this.perSubscription;
    if (band === UNKNOWN || band === RECOVERING) return Math.min(TRIAL, first);
    if (band === SLOW || bound <= first) return first;
    return Math.min(bound, Math.max(first, Math.floor((this.#free + receiver.held) / 2)));
  }

  #fits(receiver: Receiver): boolean {
    const { band, key, origin } = receiver;
    const left = this.#left(band);
    if (left <= 0 || receiver.held >= this.#most(receiver)) return false;
    if (band >= UNKNOWN) return Math.max(key.slow, origin?.slow ?? 0) < SLOW_REACH * left;
    const reach = QUICK_REACH * left;
    if (key.held - key.slow >= reach && this.#keys.size > 1) return false;
    return origin === undefined || origin.held - origin.slow < reach || this.#origins.size === 1;
  }

  #take(receiver: Receiver): HeldSlot {
    const slot = new HeldSlot(receiver, this);
    this.#count(slot, 1);
    this.#report(receiver);
    return slot;
  }

  #count({ receiver, band, origin }: HeldSlot, by: 1 | -1): void {
    const slow = band < UNKNOWN ? 0 : by;
    (this.#held[band] as number) += by;
    this.#heldSlow += slow;
    this.#free -= by;
    for (const party of [receiver, receiver.key, origin]) {
      if (party === undefined) continue;
      party.held += by;
      party.slow += slow;
    }
  }

  /** Updates how many more of it claims may take. */
  #report(receiver: Receiver): void {
    if (receiver.held === 0) return void this.busy.delete(receiver.id);
    const more = this.#promised.has(receiver) ? 1 : Math.max(0, this.#most(receiver) - receiver.held);
    this.busy.set(receiver.id, this.perSubscription - more);
  }

  /** Gives slots to those that wait, while there are any for them. */
  #promote(alsoSlow: boolean): void {
    const fits = (receiver: Receiver): boolean => this.#fits(receiver);
    while (this.#free > 0) {
      const slow = alsoSlow && this.#left(UNKNOWN) > 0 ? this.#waiting.slow.cheapest(fits) : undefined;
      // Quick ones that could use every slot leave a few to slow ones.
      const first = this.#heldSlow < (this.#caps[RECOVERING] as number);
      const next = (first ? slow : undefined) ?? this.#waiting.quick.cheapest(fits) ?? slow;
      const [waiter] = next?.waiters ?? [];
      if (next === undefined || waiter === undefined) return;
      this.#waiting.part(next, waiter[0]);
      waiter[1]();
    }
  }

  /** Keeps a slot for what the queue holds back of a subscription. */
  #promise(receiver: Receiver): void {
    this.#promised.set(receiver, { slot: this.#take(receiver), at: this.#options.clock.monotonic() });
    this.#report(receiver);
    this.#options.lift(receiver.id);
  }

  /** Counts attempts that are in flight for long as slow from now on, and gives up promises that nobody fetches. */
  #look(): void {
    const { size } = this.#young;
    const now = size === 0 ? 0 : this.#watch.now();
    for (const slot of this.#young) {
      const ms = now - (slot.since as number);
      if (ms < SLOW_MS) break;
      this.#young.delete(slot);
      this.#count(slot, -1);
      slot.band = SLOW;
      this.#count(slot, 1);
      // It is expected to take as long again. For a receiver that never answered, this shows nothing.
      if (slot.receiver.band === UNKNOWN) continue;
      learn(slot.receiver, 2 * ms);
      if (slot.receiver.waiters !== undefined) this.#waiting.moved(slot.receiver);
    }
    // This leaves room for quick ones.
    if (this.#young.size < size) this.#promote(false);
    for (const [receiver, { slot, at }] of this.#promised) {
      if (this.#options.clock.monotonic() - at < PROMISE_MS) return;
      this.#promised.delete(receiver);
      slot.give();
    }
  }

  /** Counts a page of a fan-out, which takes no slot: it uses the storage, not a connection. At most `perSubscription`. */
  #fanout(queue: string): Slot {
    this.busy.set(queue, (this.busy.get(queue) ?? 0) + 1);
    let open = true;
    const give = (): void => {
      if (!open) return;
      open = false;
      this.busy.set(queue, (this.busy.get(queue) as number) - 1);
      if (this.busy.get(queue) === 0) this.busy.delete(queue);
      this.#given++;
      this.#watchers.wake();
    };
    return { toward() {}, took() {}, give, giveEarly: () => false, stored() {} };
  }
}

const isIdle = (party: Party): boolean => party.held === 0;
const isForgettable = (one: Receiver): boolean => isIdle(one) && one.storing === 0 && one.waiters === undefined;

/** Its methods are on the prototype: a delivery makes no closures for them. */
class HeldSlot implements Slot {
  readonly receiver: Receiver;
  band: number;
  origin: Party | undefined;
  /** The time at which its attempt began; undefined before. */
  since: number | undefined = undefined;
  readonly #table: SlotTable;
  #open = true;

  constructor(receiver: Receiver, table: SlotTable) {
    this.receiver = receiver;
    this.band = receiver.band;
    this.origin = receiver.origin;
    this.#table = table;
  }

  toward(url: string): void {
    this.#table.began(this, url);
  }

  took(well: boolean): void {
    this.#table.ended(this, well);
  }

  give(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#table.give(this);
  }

  giveEarly(): boolean {
    const early = this.#table.stores(this.receiver, 1);
    if (early) this.give();
    return early;
  }

  stored(): void {
    this.#table.stores(this.receiver, -1);
  }
}
