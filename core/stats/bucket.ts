/** A bucket of statistics: what was counted on one key in one period. It is stored as one short row. */

/** The four codes of a 429, in the order of the rows. */
export const REFUSALS = ["RATE_LIMIT_EXCEEDED", "BURST_EXCEEDED", "PROVIDER_BACKPRESSURE", "ABUSE_SUSPEND"] as const;
export type CountedRefusal = (typeof REFUSALS)[number];

/** Places in a subscription's counts. */
export const MATCHED = 0;
export const DELIVERED = 1;
export const FAILED = 2;
export const ATTEMPTED = 3;
const LATENCY = 4;

/**
 * The counts of one subscription: the four, then pairs of latency cell and count, as a row holds them. Few
 * cells are ever used, and a wide event makes one of these for each of its subscriptions.
 */
export type Counts = number[];

/** Subscriptions that a bucket counts by themselves. The others are counted together, so that a row stays short. */
export const MOST_SUBSCRIPTIONS = 1_000;
/** Stands for the others. */
export const OTHERS = "others";

export interface StatsBucket {
  accepted: number;
  /** 429 answers, as in `REFUSALS`. */
  readonly refused: Uint32Array<ArrayBuffer>;
  readonly subs: Map<string, Counts>;
  /** Events left out by the filter of a subscription, by subscription. */
  readonly filtered: Map<string, number>;
  /** Pending deliveries, by subscription: not a sum but the largest reading. */
  readonly backlog: Map<string, number>;
}

export const newBucket = (): StatsBucket => ({
  accepted: 0,
  refused: new Uint32Array(REFUSALS.length),
  subs: new Map(),
  filtered: new Map(),
  backlog: new Map(),
});

export const isEmpty = ({ accepted, refused, subs, filtered, backlog }: StatsBucket): boolean =>
  accepted === 0 &&
  subs.size === 0 &&
  filtered.size === 0 &&
  backlog.size === 0 &&
  refused.every((count) => count === 0);

/** Under which id something new of a subscription is counted. */
const placeOf = (counted: ReadonlyMap<string, unknown>, id: string): string =>
  counted.size < MOST_SUBSCRIPTIONS || counted.has(id) ? id : OTHERS;

export function countsOf({ subs }: StatsBucket, id: string): Counts {
  let counts = subs.get(id);
  if (counts === undefined) {
    const place = placeOf(subs, id);
    counts = place === id ? undefined : subs.get(place);
    if (counts === undefined) subs.set(place, (counts = [0, 0, 0, 0]));
  }
  return counts;
}

export function countFiltered({ filtered }: StatsBucket, id: string, by = 1): void {
  const place = placeOf(filtered, id);
  filtered.set(place, (filtered.get(place) ?? 0) + by);
}

export const bump = (counts: Counts, at: number): void => void (counts[at] = (counts[at] as number) + 1);

/** Counts attempts that took as long as a cell of the histogram says. */
export function addLatency(counts: Counts, cell: number, by = 1): void {
  for (let i = LATENCY; i < counts.length; i += 2) {
    if (counts[i] !== cell) continue;
    counts[i + 1] = (counts[i + 1] as number) + by;
    return;
  }
  counts.push(cell, by);
}

export function addCounts(into: Counts, from: Counts): void {
  for (let i = 0; i < LATENCY; i++) into[i] = (into[i] as number) + (from[i] as number);
  for (let i = LATENCY; i < from.length; i += 2) addLatency(into, from[i] as number, from[i + 1]);
}

/** The latency histogram, a count for each cell. */
export function latenciesOf(counts: Counts): readonly number[] {
  const cells = Array.from<number>({ length: LATENCY_CELLS }).fill(0);
  for (let i = LATENCY; i < counts.length; i += 2) cells[counts[i] as number] = counts[i + 1] as number;
  return cells;
}

/** Where there is no room for one more it is left out: readings of several do not add up. */
export function readCounts({ backlog }: StatsBucket, id: string, pending: number): void {
  if (placeOf(backlog, id) === id) backlog.set(id, Math.max(pending, backlog.get(id) ?? 0));
}

/** Adds up counts. Two readings of the same pending deliveries do not add up: the larger one stays. */
export function addBucket(into: StatsBucket, from: StatsBucket): void {
  into.accepted += from.accepted;
  for (let i = 0; i < REFUSALS.length; i++) into.refused[i] = (into.refused[i] as number) + (from.refused[i] as number);
  for (const [id, counts] of from.subs) addCounts(countsOf(into, id), counts);
  for (const [id, count] of from.filtered) countFiltered(into, id, count);
  for (const [id, pending] of from.backlog) readCounts(into, id, pending);
}

/** Adds up what was counted on a key under one id, without refusals, which count at once, and readings. */
export function addSums(into: StatsBucket, from: StatsBucket, id: string): void {
  into.accepted += from.accepted;
  for (const counts of from.subs.values()) addCounts(countsOf(into, id), counts);
  for (const count of from.filtered.values()) countFiltered(into, id, count);
}

/** The content of a row, without zeros. A subscription: its four counts, then pairs of cell and count. */
interface Row {
  readonly a?: number;
  readonly r?: readonly number[];
  readonly s?: Readonly<Record<string, readonly number[]>>;
  readonly f?: Readonly<Record<string, number>>;
  readonly b?: Readonly<Record<string, number>>;
}

export function encodeBucket({ accepted, refused, subs, filtered, backlog }: StatsBucket): string {
  const row: Row = {
    a: accepted || undefined,
    r: refused.some((count) => count > 0) ? [...refused] : undefined,
    s: subs.size > 0 ? Object.fromEntries(subs) : undefined,
    f: filtered.size > 0 ? Object.fromEntries(filtered) : undefined,
    b: backlog.size > 0 ? Object.fromEntries(backlog) : undefined,
  };
  return JSON.stringify(row);
}

/** Decodes a row; a corrupt row counts as zero, so that the others can still be shown. */
export function decodeBucket(text: string): StatsBucket {
  try {
    return bucketOf(JSON.parse(text) as Row);
  } catch {
    return newBucket();
  }
}

/** @throws TypeError when a part of it is not what it should be */
function bucketOf(row: Row): StatsBucket {
  const tally = newBucket();
  tally.accepted = row.a ?? 0;
  tally.refused.set((row.r ?? []).slice(0, REFUSALS.length));
  for (const [id, line] of Object.entries(row.s ?? {})) {
    const counts = countsOf(tally, id);
    for (let i = 0; i < LATENCY; i++) counts[i] = line[i] ?? 0;
    for (let i = LATENCY; i + 1 < line.length; i += 2) {
      const cell = line[i] as number;
      if (cell >= 0 && cell < LATENCY_CELLS) addLatency(counts, cell, line[i + 1]);
    }
  }
  for (const [id, count] of Object.entries(row.f ?? {})) countFiltered(tally, id, count);
  for (const [id, pending] of Object.entries(row.b ?? {})) readCounts(tally, id, pending);
  return tally;
}

/** @param at the place of the code in `REFUSALS` */
export function countRefusal(refused: Uint32Array, at: number): void {
  refused[at] = (refused[at] as number) + 1;
}

// Latencies are counted in quarter octaves from 1 ms to about a minute, so that a quantile is right within 10 %.

export const LATENCY_CELLS = 64;
const PER_OCTAVE = 4;

export function latencyCell(ms: number): number {
  if (!(ms > 1)) return 0;
  const cell = Math.ceil(Math.log2(ms) * PER_OCTAVE);
  return cell < LATENCY_CELLS ? cell : LATENCY_CELLS - 1;
}

/** Returns the middle of a cell, ms, rounded to its precision. */
function cellMs(cell: number): number {
  const ms = 2 ** ((cell - 0.5) / PER_OCTAVE);
  return ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms);
}

/**
 * @param cells counts by cell
 * @param share 0.5 for the median, 0.99 for the 99th percentile
 * @returns ms; `undefined` when nothing was measured
 */
export function quantileMs(cells: readonly number[], share: number): number | undefined {
  let total = 0;
  for (let i = 0; i < LATENCY_CELLS; i++) total += cells[i] as number;
  if (total === 0) return undefined;
  let left = Math.ceil(total * share);
  for (let i = 0; i < LATENCY_CELLS; i++) {
    left -= cells[i] as number;
    if (left <= 0) return cellMs(i);
  }
  return cellMs(LATENCY_CELLS - 1);
}
