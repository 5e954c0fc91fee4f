/** Counts latencies in quarter octaves from 1 ms to about a minute, so that a quantile is right within 10 %. */

/** The number of cells of a histogram. */
export const LATENCY_CELLS = 64;
const PER_OCTAVE = 4;

/** @param ms a duration */
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
