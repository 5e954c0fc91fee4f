/**
 * Tracks how fast receivers answer, and how many slots each API key and each destination origin holds. Slots are shared
 * out by this. Bounded, and learned again after a restart.
 */

/** Receivers that answer faster than this on average, ms, are in band 0, 1 and 2. */
const QUICK_MS = [60, 250, 1_000] as const;
/** It takes a second or longer lately, but was quick for a good part of its earlier attempts: a stall, or a restart. */
export const RECOVERING = 3;
/** No attempt of it has ended yet. */
export const UNKNOWN = 4;
/** It takes a second or longer, or times out. */
export const SLOW = 5;
/** An attempt in flight for longer than this, ms, counts as slow, whatever its receiver did before. */
export const SLOW_MS = 1_000;
/**
 * The largest part of all slots that a band holds: a quick band together with the slower ones, the recovering one by
 * itself, the unknown one together with the slow one.
 */
export const SHARES: readonly number[] = [1, 7 / 8, 3 / 4, 1 / 8, 1 / 2, 7 / 16];
/** One attempt counts for at most this, ms: a single hanging attempt does not make a quick receiver slow. */
const MOST_MS = 3_000;
/** Share of quick attempts at which a slow receiver counts as recovering, and over how many attempts. */
const MOSTLY_QUICK = 1 / 4;
const REMEMBERED = 64;
/** Expected time of a receiver of which nothing is known, ms. */
const GUESS_MS = 1_000;

/** An API key, or a destination origin (scheme, host, port). */
export interface Party {
  /** Slots that its subscriptions hold. */
  held: number;
  /** How many of them are slow or not known yet. */
  slow: number;
  /** Moving average of attempts, ms; below 0: none yet. */
  average: number;
}

/** One subscription, as far as slots are concerned. */
export interface ReceiverSpeed {
  readonly id: string;
  readonly key: Party;
  /** Known from its first attempt on. */
  origin: Party | undefined;
  url: string;
  /** Moving average of attempts, ms; below 0: none yet. */
  average: number;
  /** Attempts counted for `quick`, 64 at most, and the share of quick ones. */
  samples: number;
  quick: number;
  /** Slots that it holds. */
  held: number;
  /** Results waiting to be stored without a slot. */
  storing: number;
  /** Whether it waits for a slot. */
  waiting: boolean;
}

export const newParty = (): Party => ({ held: 0, slow: 0, average: -1 });

export const newReceiverSpeed = (id: string, key: Party): ReceiverSpeed => ({
  id,
  key,
  origin: undefined,
  url: "",
  average: -1,
  samples: 0,
  quick: 0,
  held: 0,
  storing: 0,
  waiting: false,
});

/** Adds slots of a band to those that a key or an origin holds. */
export function count(party: Party, band: number, by: 1 | -1): void {
  party.held += by;
  if (band >= UNKNOWN) party.slow += by;
}

/** Returns the average after one more attempt. */
export function averageWith(average: number, ms: number): number {
  const sample = Math.min(ms, MOST_MS);
  return average < 0 ? sample : average + (sample - average) / 4;
}

/** Notes an attempt that took this long. */
export function learn(receiver: ReceiverSpeed, ms: number): void {
  receiver.average = averageWith(receiver.average, ms);
  receiver.samples = Math.min(receiver.samples + 1, REMEMBERED);
  receiver.quick += ((ms < SLOW_MS ? 1 : 0) - receiver.quick) / receiver.samples;
}

/** Returns the band of a receiver: 0, 1, 2, `RECOVERING`, `UNKNOWN` or `SLOW`. */
export function bandOf({ average, quick }: Pick<ReceiverSpeed, "average" | "quick">): number {
  if (average < 0) return UNKNOWN;
  for (let band = 0; band < QUICK_MS.length; band++) if (average < (QUICK_MS[band] as number)) return band;
  return quick >= MOSTLY_QUICK ? RECOVERING : SLOW;
}

/** Returns how long its next attempt is expected to take, ms: from its own history, else from its origin's. */
export function expectedMs({ average, origin }: ReceiverSpeed): number {
  if (average >= 0) return Math.max(1, average);
  return origin !== undefined && origin.average >= 0 ? Math.max(1, origin.average) : GUESS_MS;
}

/** Returns scheme, host and port of a stored URL. */
export function originOf(url: string): string {
  const end = url.indexOf("/", url.indexOf("//") + 2);
  return end < 0 ? url : url.slice(0, end);
}
