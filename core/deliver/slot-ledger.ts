/** Who holds which slots: by band of speed, key, origin and subscription; and whether one more fits. */
import { BoundedMap } from "../model/bounded-map.ts";
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

/** Attempts at once to a subscription of which nothing is known, and to one that was quick and is slow of late. */
const TRIAL = 4;
/** A key or an origin holds no more than so many times the slots that are left: of all, and of those for slow ones. */
const QUICK_REACH = 7;
const SLOW_REACH = 3;
/** Subscriptions, and keys or origins, whose speed is remembered. */
const RECEIVERS = 20_000;
const PARTIES = 10_000;

/** What asks for a slot. A lease is one. */
export interface SlotRequest {
  readonly subscriptionId: string;
  readonly keyId: string;
}

const isIdle = (party: Party): boolean => party.held === 0;

export class SlotLedger {
  readonly perSubscription: number;
  readonly clock: Clock;
  /** A slow one was refused since this was cleared, only because quick ones held all slots. */
  slowWaits = false;
  /** Its speed is another. */
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
  /** Attempts on the wire that do not count as slow yet, oldest first. */
  readonly #young = new Set<Holding>();
  #onWire = 0;

  constructor(total: number, perSubscription: number, clock: Clock, moved: (receiver: ReceiverSpeed) => void) {
    this.perSubscription = perSubscription;
    this.clock = clock;
    this.moved = moved;
    this.#total = total;
    this.#caps = SHARES.map((share) => Math.max(1, Math.ceil(total * share)));
    this.#lag = createProcessLag(clock, () => this.#onWire > 0);
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

  /** Free slots for what is slow or not known yet. */
  get freeForSlow(): number {
    return this.#cap(UNKNOWN) - this.#slow;
  }

  /** Slots that slow ones and unknown ones hold. Quick ones that hang are among them: they may be too many. */
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
    // What was quick before has slots that slow ones cannot take, so that it is seen at once to be quick again.
    if (band === RECOVERING) return this.#in(RECOVERING) < this.#cap(RECOVERING);
    const { key, origin } = receiver;
    const own = band === SLOW ? this.#cap(SLOW) - this.#in(SLOW) : Number.POSITIVE_INFINITY;
    const reach = SLOW_REACH * Math.min(this.freeForSlow, own);
    return key.slow < reach && (origin?.slow ?? 0) < reach;
  }

  #fitsQuick({ key, origin }: ReceiverSpeed, band: number, free: number): boolean {
    // However many slow ones there are, they take no more from the quick ones than is theirs.
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
    if (holding.since === undefined) this.#onWire++;
    this.#lag.watch();
    holding.since = this.#time();
    if (holding.band < SLOW) this.#young.add(holding);
  }

  ended(holding: Holding): void {
    if (holding.since === undefined) return;
    holding.since = undefined;
    this.#onWire--;
    this.#young.delete(holding);
  }

  /** Monotonic ms without those in which this process kept everything waiting. */
  #time(): number {
    const now = this.clock.monotonic();
    return now - this.#lag.total(now);
  }

  /** How long its attempt has been on the wire. */
  age({ since }: Holding, now = this.#time()): number {
    return since === undefined ? 0 : Math.max(0, now - since);
  }

  /** What is on the wire for long counts as slow from now on. */
  look(): void {
    if (this.#young.size === 0) return;
    const now = this.#time();
    for (const holding of this.#young) {
      const ms = this.age(holding, now);
      if (ms < SLOW_MS) return;
      this.#young.delete(holding);
      this.count(holding, -1);
      holding.band = SLOW;
      this.count(holding, 1);
      // It is expected to take as long again. Of what never answered nothing is known by that.
      if (holding.receiver.average >= 0) this.learn(holding.receiver, 2 * ms);
    }
  }
}

/** A slot that is held. */
export class Holding {
  readonly receiver: ReceiverSpeed;
  band: number;
  origin: Party | undefined;
  /** When its attempt went on the wire, by the ledger's time; undefined while it is not there. */
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

  /** The attempt leaves for this URL now. */
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
