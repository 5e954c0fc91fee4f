/** Who holds which slots: by band of speed, key, origin and subscription; and whether one more fits. */
import type { Clock } from "../ports/clock.ts";
import {
  averageWith,
  bandOf,
  Bounded,
  count,
  newParty,
  newReceiver,
  originOf,
  SHARES,
  SLOW,
  SLOW_MS,
  UNKNOWN,
  type Party,
  type Receiver,
} from "./speed.ts";

/** Attempts at once to a subscription of which nothing is known. */
const TRIAL = 4;
/** A key or an origin holds no more than so many times the slots that are left: of all, and of those for slow ones. */
const QUICK_REACH = 7;
const SLOW_REACH = 3;
/** Subscriptions, and keys or origins, whose speed is remembered. */
const RECEIVERS = 20_000;
const PARTIES = 10_000;

/** What asks for a slot. A lease is one. */
export interface Place {
  readonly subscriptionId: string;
  readonly keyId: string;
}

const isIdle = (party: Party): boolean => party.held === 0;

export class SlotLedger {
  readonly perSubscription: number;
  readonly clock: Pick<Clock, "monotonic">;
  /** A slow one was refused since this was cleared, only because quick ones held all slots. */
  slowWaits = false;
  /** Its speed is another. */
  readonly moved: (receiver: Receiver) => void;
  readonly #caps: readonly number[];
  /** Slots held in each band and the slower ones. */
  readonly #held = SHARES.map(() => 0);
  readonly #keys = new Bounded<Party>(PARTIES, isIdle);
  readonly #origins = new Bounded<Party>(PARTIES, isIdle);
  readonly #receivers = new Bounded<Receiver>(RECEIVERS, (one) => one.held + one.storing === 0 && !one.waiting);
  /** Attempts on the wire that do not count as slow yet, oldest first. */
  readonly #young = new Set<Holding>();

  constructor(
    total: number,
    perSubscription: number,
    clock: Pick<Clock, "monotonic">,
    moved: (receiver: Receiver) => void,
  ) {
    this.perSubscription = perSubscription;
    this.clock = clock;
    this.moved = moved;
    this.#caps = SHARES.map((share) => Math.max(1, Math.ceil(total * share)));
  }

  receiverOf({ subscriptionId, keyId }: Place): Receiver {
    const known = this.#receivers.get(subscriptionId);
    if (known !== undefined) return known;
    const key = this.#keys.get(keyId) ?? this.#keys.add(keyId, newParty());
    return this.#receivers.add(subscriptionId, newReceiver(subscriptionId, key));
  }

  originOf(url: string): Party {
    const name = originOf(url);
    return this.#origins.get(name) ?? this.#origins.add(name, newParty());
  }

  /** How many more a band and the slower ones may hold. */
  left(band: number): number {
    return (this.#caps[band] as number) - (this.#held[band] as number);
  }

  /** Most slots that it may hold, whatever others do. */
  most({ average }: Receiver): number {
    return average < 0 ? Math.min(TRIAL, this.perSubscription) : this.perSubscription;
  }

  fits(receiver: Receiver): boolean {
    if (receiver.held >= this.most(receiver)) return false;
    const { key, origin } = receiver;
    const band = bandOf(receiver);
    let free = this.left(0);
    for (let i = 1; i <= band && i < UNKNOWN; i++) free = Math.min(free, this.left(i));
    if (band < UNKNOWN) {
      if (free <= 0 || (key.held >= QUICK_REACH * free && this.#keys.size > 1)) return false;
      return origin === undefined || origin.held < QUICK_REACH * free || this.#origins.size === 1;
    }
    if (free <= 0) this.slowWaits = true;
    const slow = band === SLOW ? Math.min(this.left(UNKNOWN), this.left(SLOW)) : this.left(UNKNOWN);
    return free > 0 && key.slow < SLOW_REACH * slow && (origin?.slow ?? 0) < SLOW_REACH * slow;
  }

  count({ receiver, band, origin }: Holding, by: 1 | -1): void {
    for (let i = 0; i <= band; i++) (this.#held[i] as number) += by;
    count(receiver.key, band, by);
    if (origin !== undefined) count(origin, band, by);
  }

  learn(receiver: Receiver, ms: number): void {
    receiver.average = averageWith(receiver.average, ms);
    this.moved(receiver);
  }

  began(holding: Holding): void {
    holding.since = this.clock.monotonic();
    if (holding.band < SLOW) this.#young.add(holding);
  }

  ended(holding: Holding): void {
    this.#young.delete(holding);
  }

  /** What is on the wire for long counts as slow from now on. */
  look(): void {
    if (this.#young.size === 0) return;
    const now = this.clock.monotonic();
    for (const holding of this.#young) {
      const ms = now - holding.since;
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
  readonly receiver: Receiver;
  band: number;
  origin: Party | undefined;
  /** Monotonic ms when its attempt began. */
  since = 0;
  protected readonly ledger: SlotLedger;

  constructor(receiver: Receiver, ledger: SlotLedger) {
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

  /** The attempt has ended after so many ms. */
  took(ms: number): void {
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
