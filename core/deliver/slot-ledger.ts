/** Records who holds which slots, by band of speed, key, origin and subscription, and decides whether one more fits. */
import { BoundedMap } from "../lib/bounded-map.ts";
import type { Clock } from "../ports/clock.ts";
import { createProcessLag, type ProcessLag } from "./process-lag.ts";
import {
  averageWith,
  bandOf,
  count,
  learn,
  newParty,
  newReceiverSpeed,
  originOf,
  RECOVERING,
  SHARES,
  SLOW,
  SLOW_MS,
  UNKNOWN,
  type Party,
  type ReceiverSpeed,
} from "./receiver-speed.ts";

/** Attempts at once to a subscription of which nothing is known, or that was quick and is slow lately. */
const TRIAL = 4;
/** A key or an origin holds at most this many times the slots that are left: of all, and of those for slow ones. */
const QUICK_REACH = 7;
const SLOW_REACH = 3;
/** Subscriptions, and keys or origins, whose speed is remembered. */
const RECEIVERS = 20_000;
const PARTIES = 10_000;

/** Asks for a slot. A lease is one. */
export interface SlotRequest {
  readonly subscriptionId: string;
  readonly keyId: string;
}

const isIdle = (party: Party): boolean => party.held === 0;

export class SlotLedger {
  readonly perSubscription: number;
  readonly clock: Clock;
  /** True when a slow one was refused since this was cleared, only because quick ones held all slots. */
  slowWaits = false;
  /** Called when its speed has changed. */
  readonly moved: (receiver: ReceiverSpeed) => void;
  readonly #total: number;
  readonly #caps: readonly number[];
  #all = 0;
  readonly #lag: ProcessLag;
  /** Slots held in each band. */
  readonly #held = SHARES.map(() => 0);
  readonly #keys = new BoundedMap<Party>(PARTIES, isIdle);
  readonly #origins = new BoundedMap<Party>(PARTIES, isIdle);
  readonly #receivers = new BoundedMap<ReceiverSpeed>(RECEIVERS, (one) => one.held + one.storing === 0 && !one.waiting);
  /** Attempts in flight that do not count as slow yet, oldest first. */
  readonly #young = new Set<Holding>();
  #inFlight = 0;

  constructor(total: number, perSubscription: number, clock: Clock, moved: (receiver: ReceiverSpeed) => void) {
    this.perSubscription = perSubscription;
    this.clock = clock;
    this.moved = moved;
    this.#total = total;
    this.#caps = SHARES.map((share) => Math.max(1, Math.ceil(total * share)));
    this.#lag = createProcessLag(clock, () => this.#inFlight > 0);
  }

  receiverOf({ subscriptionId, keyId }: SlotRequest): ReceiverSpeed {
    const known = this.#receivers.get(subscriptionId);
    if (known !== undefined) return known;
    const key = this.#keys.get(keyId) ?? this.#keys.add(keyId, newParty());
    return this.#receivers.add(subscriptionId, newReceiverSpeed(subscriptionId, key));
  }

  originOf(url: string): Party {
    const name = originOf(url);
    return this.#origins.get(name) ?? this.#origins.add(name, newParty());
  }

  /** Free slots in all. */
  get free(): number {
    return this.#total - this.#all;
  }

  /** Free slots for slow or unknown receivers. */
  get freeForSlow(): number {
    return this.#cap(UNKNOWN) - this.#slow;
  }

  /** Slots that slow and unknown receivers hold. Quick ones that hang count among them, so this may exceed the bound. */
  get #slow(): number {
    return this.#in(UNKNOWN) + this.#in(SLOW);
  }

  #in(band: number): number {
    return this.#held[band] as number;
  }

  #cap(band: number): number {
    return this.#caps[band] as number;
  }

  /** Most slots that it may hold, whatever others do. */
  most(receiver: ReceiverSpeed): number {
    const band = bandOf(receiver);
    return band === UNKNOWN || band === RECOVERING ? Math.min(TRIAL, this.perSubscription) : this.perSubscription;
  }

  fits(receiver: ReceiverSpeed): boolean {
    if (receiver.held >= this.most(receiver)) return false;
    const band = bandOf(receiver);
    const { free } = this;
    if (free <= 0 && band >= UNKNOWN) this.slowWaits = true;
    if (free <= 0) return false;
    if (band < RECOVERING) return this.#fitsQuick(receiver, band, free);
    // A formerly quick receiver has slots that slow ones cannot take, so that its recovery is noticed at once.
    if (band === RECOVERING) return this.#in(RECOVERING) < this.#cap(RECOVERING);
    const { key, origin } = receiver;
    const own = band === SLOW ? this.#cap(SLOW) - this.#in(SLOW) : Number.POSITIVE_INFINITY;
    const reach = SLOW_REACH * Math.min(this.freeForSlow, own);
    return key.slow < reach && (origin?.slow ?? 0) < reach;
  }

  #fitsQuick({ key, origin }: ReceiverSpeed, band: number, free: number): boolean {
    // However many slow ones there are, they take no more from the quick ones than their share.
    let held = Math.min(this.#slow, this.#cap(UNKNOWN)) + this.#in(RECOVERING);
    let least = free;
    for (let i = RECOVERING - 1; i >= 1; i--) {
      held += this.#in(i);
      if (i <= band) least = Math.min(least, this.#cap(i) - held);
    }
    const reach = QUICK_REACH * least;
    if (least <= 0 || (key.held - key.slow >= reach && this.#keys.size > 1)) return false;
    return origin === undefined || origin.held - origin.slow < reach || this.#origins.size === 1;
  }

  count({ receiver, band, origin }: Holding, by: 1 | -1): void {
    (this.#held[band] as number) += by;
    this.#all += by;
    count(receiver.key, band, by);
    if (origin !== undefined) count(origin, band, by);
  }

  learn(receiver: ReceiverSpeed, ms: number): void {
    learn(receiver, ms);
    this.moved(receiver);
  }

  began(holding: Holding): void {
    if (holding.since === undefined) this.#inFlight++;
    this.#lag.watch();
    holding.since = this.#time();
    if (holding.band < SLOW) this.#young.add(holding);
  }

  ended(holding: Holding): void {
    if (holding.since === undefined) return;
    holding.since = undefined;
    this.#inFlight--;
    this.#young.delete(holding);
  }

  /** Monotonic ms, without the time in which this process itself was delayed. */
  #time(): number {
    const now = this.clock.monotonic();
    return now - this.#lag.total(now);
  }

  /** Returns how long its attempt has been in flight. */
  age({ since }: Holding, now = this.#time()): number {
    return since === undefined ? 0 : Math.max(0, now - since);
  }

  /** Counts attempts that are in flight for long as slow from now on. @returns whether there were any */
  look(): boolean {
    if (this.#young.size === 0) return false;
    const now = this.#time();
    let found = false;
    for (const holding of this.#young) {
      const ms = this.age(holding, now);
      if (ms < SLOW_MS) break;
      found = true;
      this.#young.delete(holding);
      this.count(holding, -1);
      holding.band = SLOW;
      this.count(holding, 1);
      // It is expected to take as long again. For a receiver that never answered, this shows nothing.
      if (holding.receiver.average >= 0) this.learn(holding.receiver, 2 * ms);
    }
    return found;
  }
}

/** A held slot. */
export class Holding {
  readonly receiver: ReceiverSpeed;
  band: number;
  origin: Party | undefined;
  /** The ledger's time at which its attempt began; undefined while it is not in flight. */
  since: number | undefined = undefined;
  protected readonly ledger: SlotLedger;

  constructor(receiver: ReceiverSpeed, ledger: SlotLedger) {
    this.receiver = receiver;
    this.ledger = ledger;
    this.band = bandOf(receiver);
    this.origin = receiver.origin;
    receiver.held++;
    ledger.count(this, 1);
  }

  /** The attempt is sent to this URL now. */
  toward(url: string): void {
    const { receiver, ledger } = this;
    if (receiver.url !== url) {
      receiver.url = url;
      receiver.origin = ledger.originOf(url);
    }
    if (this.origin !== receiver.origin) {
      ledger.count(this, -1);
      this.origin = receiver.origin;
      ledger.count(this, 1);
    }
    ledger.began(this);
  }

  /** The attempt has ended. */
  took(): void {
    const ms = this.ledger.age(this);
    this.ledger.ended(this);
    if (this.origin !== undefined) this.origin.average = averageWith(this.origin.average, ms);
    this.ledger.learn(this.receiver, ms);
  }

  protected drop(): void {
    this.ledger.ended(this);
    this.ledger.count(this, -1);
    this.receiver.held--;
  }
}
