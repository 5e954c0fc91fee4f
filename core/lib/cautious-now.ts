/** The time by which what is old is deleted: a wall clock that is set forwards deletes nothing before its time. */

/** Only after a wall clock has been ahead for so long is it believed, ms of monotonic time. */
const BELIEVED_MS = 86_400_000;

/**
 * Returns a reading of the wall clock that is never ahead of the one at the start and the time since. One that was behind
 * at the start, and was set right, is believed a day later: until then what is old stays longer.
 */
export function createCautiousNow(clock: { now(): number; monotonic(): number }): () => number {
  let trusted = clock.now() - clock.monotonic();
  let ahead: { readonly since: number; least: number } | undefined;
  return () => {
    const [wall, monotonic] = [clock.now(), clock.monotonic()];
    const offset = wall - monotonic;
    if (offset <= trusted) {
      ahead = undefined;
      return wall;
    }
    ahead ??= { since: monotonic, least: offset };
    ahead.least = Math.min(ahead.least, offset);
    if (monotonic - ahead.since >= BELIEVED_MS) {
      trusted = ahead.least;
      ahead = undefined;
    }
    return Math.min(wall, trusted + monotonic);
  };
}
