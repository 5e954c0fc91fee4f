/**
 * Shares out slots: how many attempts may be in flight, in all and per subscription, so that nobody is starved.
 *
 * - Slow and unknown receivers hold half of all slots at most, so that a quick one finds a slot at once.
 * - A key or an origin holds a few times as many slots as are left, so that others always find some.
 * - A subscription has a bound of its own, which adapts to its receiver. Beyond the first few slots it holds no more than
 *   are left: one alone holds half of all, each of two a third.
 * - The queue holds back what does not fit. Of those that wait, the next is the one whose slot weighs the least: the slots
 *   that its key and origin hold, times how long its attempts take.
 */
import { BoundedMap } from "../lib/bounded-map.ts";
import { Waiters } from "../lib/waiters.ts";
import { isFanoutQueue } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Lease } from "../ports/storage.ts";
import { Party, QUICK, Receiver, RECOVERING, SLOW, SLOW_MS, StopWatch, WaitingLine } from "./receivers.ts";

/** Slots of a subscription at first, and while it is unknown or recovering. */
const FIRST = 16;
const TRIAL = 4;
/** The largest part of all slots that each band holds. */
const SHARES = [1, 1 / 8, 1 / 2] as const;
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
type SlotRequest = Pick<Lease, "subscriptionId" | "keyId">;

interface SlotsOptions {
  readonly total: number;
  /** Most slots of each subscription; undefined: as many as its receiver keeps up with. */
  readonly perSubscription: number | undefined;
  readonly clock: Clock;
  /** Lets the queue stop holding back this subscription. */
  readonly lift: (subscriptionId: string) => void;
}

export class Slots {
  /** The `perSubscription` of a claim: what may be under way of a subscription of which nothing is. */
  readonly perSubscription: number;
  /** Makes a claim find no more of each subscription than fits: `perSubscription` less what more may be under way. */
  readonly busy: Map<string, number> = new Map();
  readonly #options: SlotsOptions;
  readonly #caps: readonly number[];
  readonly #largest: number;
  /** Slots held in each band, and free ones. */
  readonly #held = SHARES.map(() => 0);
  #free: number;
  readonly #keys = new BoundedMap<Party>(PARTIES, isIdle);
  readonly #origins = new BoundedMap<Party>(PARTIES, isIdle);
  readonly #receivers = new BoundedMap<Receiver>(RECEIVERS, isForgettable);
  /** Attempts in flight that do not count as slow yet, oldest first. */
  readonly #young = new Set<Slot>();
  /** Subscriptions that the queue holds back: those that are quick or recover, and the slow ones. */
  readonly #quick = new WaitingLine();
  readonly #slow = new WaitingLine();
  /** Slots for subscriptions that the queue no longer holds back, oldest first. */
  readonly #promised = new Map<Receiver, Slot>();
  readonly #watchers = new Waiters();
  readonly #watch: StopWatch;
  #storing = 0;
  #turnover = 0;

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
  turnover(): number {
    return this.#turnover;
  }

  /** Returns true when it is known, and answers in less than a second on average. */
  isQuick(subscriptionId: string): boolean {
    return this.#receivers.get(subscriptionId)?.band === QUICK;
  }

  /** Returns a slot, if there is one at once and nobody waits who would be delayed by that. */
  tryTake(to: SlotRequest): Slot | undefined {
    const receiver = this.#asking(to);
    const delays = this.#quick.size > 0 || (receiver.band !== QUICK && this.#slow.size > 0);
    return delays || this.#promised.has(receiver) || !this.#fits(receiver) ? undefined : this.#take(receiver);
  }

  /**
   * Returns a slot for a claimed delivery, or how long the queue holds back its subscription, ms, before the delivery
   * goes back unharmed. 0: enough of it is under way, and frees its slots when it ends.
   */
  admit(to: SlotRequest): Slot | number {
    const receiver = this.#asking(to);
    if (isFanoutQueue(receiver.id)) return this.#take(receiver);
    const promised = this.#promised.get(receiver);
    if (promised !== undefined) this.#promised.delete(receiver);
    else if (this.#fits(receiver)) {
      this.#waits(receiver, false);
      return this.#take(receiver);
    }
    this.#report(receiver);
    if (promised !== undefined) return promised;
    if (receiver.held >= this.#most(receiver)) return 0;
    if (this.#slow.size < MOST_SLOW) this.#waits(receiver, true);
    return receiver.band === SLOW ? SLOW_HOLD_MS : Math.max(QUICK_HOLD_MS, this.#quick.size);
  }

  /** Resolves when a slot is given back next, or `signal` aborts. */
  freed(signal: AbortSignal): Promise<void> {
    return this.#watchers.wait(signal);
  }

  /** The attempt of a slot is sent to this URL now. */
  began(slot: Slot, url: string): void {
    const { receiver } = slot;
    if (receiver.url !== url) {
      const name = originOf(url);
      receiver.url = url;
      receiver.origin = this.#origins.get(name) ?? this.#origins.add(name, new Party());
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
  ended(slot: Slot, well: boolean): void {
    const { receiver } = slot;
    const now = this.#watch.now();
    const ms = Math.max(0, now - (slot.since ?? now));
    this.#young.delete(slot);
    slot.origin?.learn(ms);
    if (receiver.waits) this.#moved(receiver, ms);
    else receiver.learn(ms);
    receiver.adapt(ms, well, this.perSubscription, this.#largest);
  }

  /** A slot was given back. */
  given(slot: Slot): void {
    // Slow ones are only compared when this may be what they lacked.
    const alsoSlow = slot.band === SLOW || this.#free <= 0;
    this.#young.delete(slot);
    this.#count(slot, -1);
    this.#report(slot.receiver);
    if (this.#quick.size + this.#slow.size > 0) this.#promote(alsoSlow);
    this.#turnover++;
    if (this.free() > 0) this.#watchers.wake();
  }

  /** Counts results that wait to be stored without a slot. @returns false when one more would be too many */
  stores(receiver: Receiver, by: 1 | -1): boolean {
    if (by > 0 && (receiver.storing >= receiver.bound || this.#storing >= this.#options.total)) return false;
    receiver.storing += by;
    this.#storing += by;
    return true;
  }

  /** Returns the one that asks for a slot, once time is taken into account. */
  #asking({ subscriptionId, keyId }: SlotRequest): Receiver {
    this.#age();
    const known = this.#receivers.get(subscriptionId);
    if (known !== undefined) return known;
    const key = this.#keys.get(keyId) ?? this.#keys.add(keyId, new Party());
    return this.#receivers.add(subscriptionId, new Receiver(subscriptionId, key, this.perSubscription));
  }

  /** Returns the free slots for receivers in a band. */
  #left(band: number): number {
    return Math.min(this.#free, (this.#caps[band] as number) - (this.#held[band] as number));
  }

  /** Returns the most slots that it may hold now. */
  #most({ band, bound, held, average }: Receiver): number {
    const first = this.perSubscription;
    if (band === RECOVERING || average < 0) return Math.min(TRIAL, first);
    if (band === SLOW || bound <= first) return first;
    return Math.min(bound, Math.max(first, Math.floor((this.#free + held) / 2)));
  }

  readonly #fits = (receiver: Receiver): boolean => {
    const { band, key, origin } = receiver;
    const left = this.#left(band);
    if (left <= 0 || receiver.held >= this.#most(receiver)) return false;
    if (band === SLOW) return Math.max(key.slow, origin?.slow ?? 0) < SLOW_REACH * left;
    const reach = QUICK_REACH * left;
    if (key.held - key.slow >= reach && this.#keys.size > 1) return false;
    return origin === undefined || origin.held - origin.slow < reach || this.#origins.size === 1;
  };

  #take(receiver: Receiver): Slot {
    const slot = new Slot(receiver, this);
    this.#count(slot, 1);
    this.#report(receiver);
    return slot;
  }

  #count({ receiver, band, origin }: Slot, by: 1 | -1): void {
    // A page of a fan-out uses the storage, not a connection.
    if (isFanoutQueue(receiver.id)) return void (receiver.held += by);
    (this.#held[band] as number) += by;
    this.#free -= by;
    for (const party of [receiver, receiver.key, origin]) {
      if (party === undefined) continue;
      party.held += by;
      if (band === SLOW) party.slow += by;
    }
  }

  /** Updates how many more of it claims may take. */
  #report(receiver: Receiver): void {
    if (receiver.held === 0) return void this.busy.delete(receiver.id);
    const more = this.#promised.has(receiver) ? 1 : Math.max(0, this.#most(receiver) - receiver.held);
    this.busy.set(receiver.id, this.perSubscription - more);
  }

  /** Notes an attempt that took this long; one that waits may wait among others from then on. */
  #moved(receiver: Receiver, ms: number): void {
    const { waits } = receiver;
    this.#waits(receiver, false);
    receiver.learn(ms);
    this.#waits(receiver, waits);
  }

  #waits(receiver: Receiver, waits: boolean): void {
    if (receiver.waits === waits) return;
    receiver.waits = waits;
    const line = receiver.band === SLOW ? this.#slow : this.#quick;
    if (waits) line.add(receiver);
    else line.delete(receiver);
  }

  /** Keeps slots for those that the queue holds back, while there are any for them, and lets the queue go on with them. */
  #promote(alsoSlow: boolean): void {
    while (this.#free > 0) {
      const slow = alsoSlow && this.#left(SLOW) > 0 ? this.#slow.lightest(this.#fits) : undefined;
      // Quick ones that could use every slot leave a few to slow ones.
      const first = (this.#held[SLOW] as number) < (this.#caps[RECOVERING] as number);
      const next = (first ? slow : undefined) ?? this.#quick.lightest(this.#fits) ?? slow;
      if (next === undefined) return;
      this.#waits(next, false);
      const slot = this.#take(next);
      slot.since = this.#watch.now();
      this.#promised.set(next, slot);
      this.#report(next);
      this.#options.lift(next.id);
    }
  }

  /** Counts attempts that are in flight for long as slow from now on, and gives up promises that nobody fetches. */
  #age(): void {
    const { size } = this.#young;
    if (size + this.#promised.size === 0) return;
    const now = this.#watch.now();
    for (const slot of this.#young) {
      const ms = now - (slot.since as number);
      if (ms < SLOW_MS) break;
      this.#young.delete(slot);
      this.#count(slot, -1);
      slot.band = SLOW;
      this.#count(slot, 1);
      // It is expected to take as long again.
      this.#moved(slot.receiver, 2 * ms);
    }
    // This leaves room for quick ones.
    if (this.#young.size < size) this.#promote(false);
    for (const [receiver, slot] of this.#promised) {
      if (now - (slot.since as number) < PROMISE_MS) return;
      this.#promised.delete(receiver);
      slot.give();
    }
  }
}

const isIdle = (party: Party): boolean => party.held === 0;
const isForgettable = (one: Receiver): boolean => isIdle(one) && one.storing === 0 && !one.waits;

/** Returns scheme, host and port of a stored URL. */
function originOf(url: string): string {
  const end = url.indexOf("/", url.indexOf("//") + 2);
  return end < 0 ? url : url.slice(0, end);
}

/** One delivery's right to have a request in flight. Its methods are on the prototype: a delivery makes no closures for them. */
export class Slot {
  readonly receiver: Receiver;
  band: number;
  origin: Party | undefined;
  /** The time at which its attempt began, or it was promised; undefined before. */
  since: number | undefined = undefined;
  readonly #slots: Slots;
  #open = true;

  constructor(receiver: Receiver, slots: Slots) {
    this.receiver = receiver;
    this.band = receiver.band;
    this.origin = receiver.origin;
    this.#slots = slots;
  }

  /** The attempt is sent to this URL now. */
  toward(url: string): void {
    this.#slots.began(this, url);
  }

  /** The attempt has ended. `well`: by a response below 500 that is no 429. */
  took(well: boolean): void {
    this.#slots.ended(this, well);
  }

  /** Gives it back; a second call does nothing. */
  give(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#slots.given(this);
  }

  /**
   * Gives the slot back before a success is stored, so that sending does not wait for the disk. Returns false, and
   * keeps the slot, while as many results wait to be stored as the subscription, or all, may have slots: this bounds what
   * is sent again after a crash.
   */
  giveEarly(): boolean {
    const early = this.#slots.stores(this.receiver, 1);
    if (early) this.give();
    return early;
  }

  /** The result of an attempt that gave its slot back early is stored, or never will be. */
  stored(): void {
    this.#slots.stores(this.receiver, -1);
  }
}
