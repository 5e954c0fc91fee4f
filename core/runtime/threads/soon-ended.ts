/** Counts how often in a row a thread ended soon after its start, and says how long to wait before the next one. */

/** A thread that lived for this long is replaced at once, ms; one that did not, after a pause that grows. */
const LIVED_MS = 60_000;
const FIRST_PAUSE_MS = 1_000;
const MOST_PAUSE_MS = 30_000;

interface SoonEnded {
  /** The thread of this index has ended, or could not start. @param livedMs how long its node served */
  ended(index: number, livedMs: number): void;
  /** How often in a row it ended soon. */
  times(index: number): number;
  /** How long to wait before it is started again, ms. */
  pauseMs(index: number): number;
}

export function createSoonEnded(): SoonEnded {
  const counts = new Map<number, number>();
  const times = (index: number): number => counts.get(index) ?? 0;
  return {
    ended: (index, livedMs) => void counts.set(index, livedMs < LIVED_MS ? times(index) + 1 : 0),
    times,
    pauseMs: (index) => (times(index) === 0 ? 0 : Math.min(MOST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (times(index) - 1))),
  };
}
