/** Bounds how many lines a minute requests write that are refused or fail, of one group and of all, and counts the rest. */
import type { Sleeper } from "./within.ts";

const WINDOW_MS = 60_000;
/** Lines a minute of one group: a flood of it must neither fill the disk nor hide the others. */
const LINES_OF_ONE = 20;
/** Lines a minute of all groups together; so many groups are remembered at most. */
const LINES_OF_ALL = 200;

/** Says whether a line of this group may be written. Its minute counts it then. */
type LineBound = (group: string) => boolean;

/** @param tell called after a minute in which lines were left out, with their number */
export function createLineBound(clock: Sleeper & { monotonic(): number }, tell: (count: number) => void): LineBound {
  let endsAt = Number.NEGATIVE_INFINITY;
  let written = 0;
  let leftOut = 0;
  const byGroup = new Map<string, number>();

  function tellLeftOut(): void {
    if (leftOut > 0) tell(leftOut);
    leftOut = 0;
  }

  /** At the end of the minute, also when nothing more comes. */
  async function tellLater(): Promise<void> {
    await clock.sleep(clock.now() + WINDOW_MS);
    tellLeftOut();
  }

  return (group) => {
    const now = clock.monotonic();
    if (now >= endsAt) {
      tellLeftOut();
      endsAt = now + WINDOW_MS;
      written = 0;
      byGroup.clear();
    }
    const count = byGroup.get(group) ?? 0;
    if (written >= LINES_OF_ALL || count >= LINES_OF_ONE) {
      if (leftOut++ === 0) void tellLater();
      return false;
    }
    written++;
    byGroup.set(group, count + 1);
    return true;
  };
}
