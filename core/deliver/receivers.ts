/** Knows how fast receivers answer, how many attempts at once each of them bears, and which of those that wait is next. */
import type { Clock } from "../ports/clock.ts";

/** The bands of receivers: those that answer in less than a second on average, … */
export const QUICK = 0;
/** …those that do not lately, but did for a good part of their earlier attempts: a stall, or a restart, … */
export const RECOVERING = 1;
/** …those of which no attempt has ended yet, … */
export const UNKNOWN = 2;
/** …and the others. */
export const SLOW = 3;
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
/** Most subscriptions that are looked at to find the next of those that wait. */
const LOOKS = 256;
/** Time between two measurements of the process's own lag, ms. */
const LAG_STEP_MS = 100;

/** An API key, a destination origin (scheme, host, port), or a subscription. */
export interface Party {
  /** Slots that it holds, and how many of them at receivers that are slow or not known yet. */
  held: number;
  slow: number;
  /** Moving average of attempts, ms; below 0: none yet. */
  average: number;
}

/** One subscription, as far as slots are concerned. */
export interface Receiver extends Party {
  readonly id: string;
  readonly key: Party;
  /** Known from its first attempt on. */
  origin: Party | undefined;
  url: string;
  band: number;
  /** Attempts that are remembered, and the share of quick ones. */
  samples: number;
  share: number;
  /** Most slots that it may hold while it is quick, and its quickest attempt lately, ms. */
  bound: number;
  quickest: number;
  /** Answers that may still raise the bound; below 0: those that say nothing, because they were under way when it fell. */
  credit: number;
  /** True once the bound was lowered because answers came late. */
  careful: boolean;
  /** Results waiting to be stored without a slot. */
  storing: number;
  /** Each gives somebody a slot who waits for it, first come first served; undefined: nobody does. */
  waiters: Map<unknown, () => void> | undefined;
}

export const newParty = (): Party => ({ held: 0, slow: 0, average: -1 });

export const newReceiver = (id: string, key: Party, bound: number): Receiver => ({
  ...{ id, key, origin: undefined, url: "", ...newParty(), band: UNKNOWN, samples: 0, share: 0, storing: 0 },
  ...{ bound, quickest: Number.POSITIVE_INFINITY, credit: 0, careful: false, waiters: undefined },
});

/** Updates the average by an attempt that took this long. */
export function average(party: Party, ms: number): void {
  const sample = Math.min(ms, MOST_MS);
  party.average = party.average < 0 ? sample : party.average + (sample - party.average) / 4;
}

/** Notes an attempt that took this long. */
export function learn(receiver: Receiver, ms: number): void {
  average(receiver, ms);
  receiver.samples = Math.min(receiver.samples + 1, REMEMBERED);
  receiver.share += ((ms < SLOW_MS ? 1 : 0) - receiver.share) / receiver.samples;
  if (receiver.average < SLOW_MS) receiver.band = QUICK;
  else receiver.band = receiver.share >= MOSTLY_QUICK ? RECOVERING : SLOW;
}

/**
 * Adapts the bound to an answer. When as many attempts as it allows are under way, each of their answers raises it by one:
 * it doubles in a round trip. An error, or answers that come late for this receiver, lower it, once a round trip at most:
 * by as much as they are late, by half at most; one error in ten answers leaves some eighty slots. A slow receiver
 * starts again at the least.
 */
export function adapt(receiver: Receiver, ms: number, well: boolean, least: number, most: number): void {
  const quick = receiver.band === QUICK;
  // Forgotten over a thousand round trips: a receiver may become slower for good.
  receiver.quickest = Math.min(receiver.quickest * (1 + 0.001 / receiver.held), Math.max(1, ms));
  // With so few at once it is not the relay that delays its answers: it has become slower.
  if (receiver.bound <= least && receiver.credit >= 0) {
    receiver.quickest = Math.max(receiver.quickest, receiver.average);
    receiver.careful = false;
  }
  const usual = 2 * receiver.quickest;
  const late = receiver.average / (usual + LATE_MS);
  if (quick && receiver.credit < 0) {
    receiver.credit++;
  } else if (!quick || !well || late > 1) {
    const part = well ? Math.max(1 / 2, Math.min(1 / late, 1 - STEP)) : 1 - STEP;
    receiver.bound = Math.max(least, quick ? Math.floor(receiver.bound * part) : 0);
    receiver.credit = 1 - receiver.held;
    receiver.careful ||= well;
  } else {
    // More at once than it can use make a quick receiver late by a few ms only.
    if (receiver.credit === 0 && receiver.held >= receiver.bound && receiver.average <= usual + LATE_MS / 4)
      receiver.credit = Math.ceil(receiver.bound * (receiver.careful ? STEP : 1));
    if (receiver.credit === 0) return;
    receiver.credit--;
    receiver.bound = Math.min(most, receiver.bound + 1);
  }
}

/**
 * Returns what its next slot costs others: the slots that its key and origin hold, times how long its attempts take. Its own
 * slots decide among subscriptions of the same key and origin.
 */
function costOf(receiver: Receiver): number {
  const { key, origin, held } = receiver;
  const kind = receiver.band < UNKNOWN ? "held" : "slow";
  const known = receiver.average >= 0 ? receiver.average : (origin?.average ?? -1);
  const ms = known >= 0 ? Math.max(1, known) : SLOW_MS;
  return (key[kind] + (origin?.[kind] ?? 0) + held / 1_000 + 1) * ms;
}

/** Subscriptions that wait for a slot: those that are quick or recover, and the others. */
export class Waiting {
  readonly quick = new WaitingLine();
  readonly slow = new WaitingLine();

  #lineOf({ band }: Receiver): WaitingLine {
    return band < UNKNOWN ? this.quick : this.slow;
  }

  /** @param grant gives `who` a slot of the subscription */
  join(receiver: Receiver, who: unknown, grant: () => void): void {
    if (receiver.waiters === undefined) this.#lineOf(receiver).add(receiver);
    receiver.waiters = (receiver.waiters ?? new Map<unknown, () => void>()).set(who, grant);
  }

  part(receiver: Receiver, who: unknown): void {
    if (receiver.waiters?.delete(who) !== true || receiver.waiters.size > 0) return;
    receiver.waiters = undefined;
    this.#lineOf(receiver).delete(receiver);
  }

  /** Its band has changed: it waits among others from now on. */
  moved(receiver: Receiver): void {
    this.quick.delete(receiver);
    this.slow.delete(receiver);
    this.#lineOf(receiver).add(receiver);
  }
}

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

  /**
   * Returns the one with the lowest cost of those that fit. Looks at some hundred of them, at some of each key, and at
   * others the next time: it is called for each slot that is given back.
   */
  cheapest(fits: (receiver: Receiver) => boolean): Receiver | undefined {
    let found: Receiver | undefined;
    const each = Math.max(1, Math.floor(LOOKS / this.#keys.size));
    for (const ofKey of inTurn(this.#keys, LOOKS))
      for (const one of inTurn(ofKey, each))
        if (fits(one) && (found === undefined || costOf(one) < costOf(found))) found = one;
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

/** Returns scheme, host and port of a stored URL. */
export function originOf(url: string): string {
  const end = url.indexOf("/", url.indexOf("//") + 2);
  return end < 0 ? url : url.slice(0, end);
}
