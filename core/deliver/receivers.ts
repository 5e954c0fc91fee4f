/** Knows how fast receivers answer, how many attempts at once each of them bears, and which of those that wait is next. */
import type { Clock } from "../ports/clock.ts";

/** The bands of receivers: those that answer in less than a second on average, … */
export const QUICK = 0;
/** …those that do not lately, but did for a good part of their earlier attempts: a stall, or a restart, … */
export const RECOVERING = 1;
/** …and the others, also those of which no attempt has ended yet. */
export const SLOW = 2;
/** An attempt that takes longer than this, ms, is slow. */
export const SLOW_MS = 1_000;
/** One attempt counts for at most this, ms: a single hanging attempt does not make a quick receiver slow. */
const MOST_MS = 3_000;
/** Share of quick attempts at which a slow receiver counts as recovering, and over how many attempts. */
const MOSTLY_QUICK = 1 / 4;
const REMEMBERED = 64;
/** The part by which a bound is lowered at least, and by which it is raised in a round trip once answers came late. */
const STEP = 1 / 8;
/** An answer is late when it takes this much longer than twice as long as the quickest, ms. */
const LATE_MS = 20;
/** Most subscriptions that are compared to find the next of those that wait. */
const COMPARED = 256;
/** Time between two measurements of the process's own lag, ms. */
const LAG_STEP_MS = 100;

/** An API key, a destination origin (scheme, host, port), or a subscription. */
export class Party {
  /** Slots that it holds, and how many of them in the slow band. */
  held = 0;
  slow = 0;
  /** Moving average of attempts, ms; below 0: none yet. */
  average = -1;

  /** Notes an attempt that took this long. */
  learn(ms: number): void {
    const sample = Math.min(ms, MOST_MS);
    this.average = this.average < 0 ? sample : this.average + (sample - this.average) / 4;
  }
}

/** One subscription, as far as slots are concerned. */
export class Receiver extends Party {
  readonly id: string;
  readonly key: Party;
  /** Known from its first attempt on. */
  origin: Party | undefined = undefined;
  url = "";
  band = SLOW;
  /** Most slots that it may hold while it is quick. */
  bound: number;
  /** Results waiting to be stored without a slot. */
  storing = 0;
  /** The queue holds it back until there is a slot for it. */
  waits = false;
  /** Attempts that are remembered, and the share of quick ones. */
  #samples = 0;
  #share = 0;
  /** Its quickest attempt lately, ms. */
  #quickest = Number.POSITIVE_INFINITY;
  /** Answers that may still raise the bound; below 0: those that say nothing, because they were under way when it fell. */
  #credit = 0;
  /** True once the bound was lowered because answers came late. */
  #careful = false;

  constructor(id: string, key: Party, bound: number) {
    super();
    this.id = id;
    this.key = key;
    this.bound = bound;
  }

  override learn(ms: number): void {
    super.learn(ms);
    this.#samples = Math.min(this.#samples + 1, REMEMBERED);
    this.#share += ((ms < SLOW_MS ? 1 : 0) - this.#share) / this.#samples;
    if (this.average < SLOW_MS) this.band = QUICK;
    else this.band = this.#share >= MOSTLY_QUICK ? RECOVERING : SLOW;
  }

  /**
   * Adapts the bound to an answer. When as many attempts as it allows are under way, each of their answers raises it by
   * one: it doubles in a round trip. An error, or answers that come late for this receiver, lower it, once a round trip at
   * most: by as much as they are late, by half at most; one error in ten answers leaves some eighty slots. A slow receiver
   * starts again at the least.
   */
  adapt(ms: number, well: boolean, least: number, most: number): void {
    const quick = this.band === QUICK;
    // Forgotten over a thousand round trips: a receiver may become slower for good.
    this.#quickest = Math.min(this.#quickest * (1 + 0.001 / this.held), Math.max(1, ms));
    // With so few at once it is not the relay that delays its answers: it has become slower.
    if (this.bound <= least && this.#credit >= 0) {
      this.#quickest = Math.max(this.#quickest, this.average);
      this.#careful = false;
    }
    const usual = 2 * this.#quickest;
    const late = this.average / (usual + LATE_MS);
    if (quick && this.#credit < 0) {
      this.#credit++;
    } else if (!quick || !well || late > 1) {
      const part = well ? Math.max(1 / 2, Math.min(1 / late, 1 - STEP)) : 1 - STEP;
      this.bound = Math.max(least, quick ? Math.floor(this.bound * part) : 0);
      this.#credit = 1 - this.held;
      this.#careful ||= well;
    } else {
      // More at once than it can use make a quick receiver late by a few ms only.
      if (this.#credit === 0 && this.held >= this.bound && this.average <= usual + LATE_MS / 4)
        this.#credit = Math.ceil(this.bound * (this.#careful ? STEP : 1));
      if (this.#credit === 0) return;
      this.#credit--;
      this.bound = Math.min(most, this.bound + 1);
    }
  }

  /** Returns the weight of its next slot: those that its key and origin hold, times how long attempts take. */
  weight(): number {
    const { key, origin, held } = this;
    const kind = this.band < SLOW ? "held" : "slow";
    const known = this.average >= 0 ? this.average : (origin?.average ?? -1);
    const ms = known >= 0 ? Math.max(1, known) : SLOW_MS;
    return (key[kind] + (origin?.[kind] ?? 0) + held / 1_000 + 1) * ms;
  }
}

/** Subscriptions that wait for a slot, by key. */
export class WaitingLine {
  size = 0;
  readonly #keys = new Map<Party, Map<Receiver, Receiver>>();

  add(receiver: Receiver): void {
    const ofKey = this.#keys.get(receiver.key) ?? new Map<Receiver, Receiver>();
    this.#keys.set(receiver.key, ofKey.set(receiver, receiver));
    this.size++;
  }

  delete(receiver: Receiver): void {
    const ofKey = this.#keys.get(receiver.key);
    if (ofKey?.delete(receiver) !== true) return;
    if (ofKey.size === 0) this.#keys.delete(receiver.key);
    this.size--;
  }

  /** Returns the lightest that fits of some hundred, others the next time: each slot that is given back asks. */
  lightest(fits: (receiver: Receiver) => boolean): Receiver | undefined {
    let found: Receiver | undefined;
    const each = Math.max(1, Math.floor(COMPARED / this.#keys.size));
    for (const ofKey of inTurn(this.#keys, COMPARED))
      for (const one of inTurn(ofKey, each))
        if (fits(one) && (found === undefined || one.weight() < found.weight())) found = one;
    return found;
  }
}

/** Yields so many values of a map, and moves each behind the others: the next call goes on with those. */
function* inTurn<K, V>(map: Map<K, V>, most: number): Generator<V> {
  let left = Math.min(most, map.size);
  for (const [key, value] of map) {
    if (left-- === 0) return;
    map.delete(key);
    map.set(key, value);
    yield value;
  }
}

/** Measures time without what this process itself was late, because a busy machine makes every receiver look slow. */
export class StopWatch {
  readonly #clock: Clock;
  readonly #needed: () => boolean;
  #lag = 0;
  #measuredAt: number | undefined;

  /** @param needed returns whether there is still something to measure */
  constructor(clock: Clock, needed: () => boolean) {
    this.#clock = clock;
    this.#needed = needed;
  }

  /** Returns ms that only grow. */
  now(): number {
    if (this.#measuredAt === undefined) void this.#run();
    const now = this.#clock.monotonic();
    // The timer may be late at this moment.
    return now - this.#lag - Math.max(0, now - (this.#measuredAt ?? now) - LAG_STEP_MS);
  }

  /** Measures how late timers are, as long as it is needed. */
  async #run(): Promise<void> {
    while (this.#needed()) {
      this.#measuredAt = this.#clock.monotonic();
      await this.#clock.sleep(this.#clock.now() + LAG_STEP_MS);
      this.#lag += Math.max(0, this.#clock.monotonic() - this.#measuredAt - LAG_STEP_MS);
    }
    this.#measuredAt = undefined;
  }
}
