/** Limits how much of the time a repeated count takes. */

/** A count is repeated only after this many times its own duration, so that counting does not become the work. */
const COUNT_SHARE = 20;

/**
 * Repeats a count only when it is cheap to do so; in between, the last one stands.
 * @param clock its time is monotonic, in ms
 */
export function seldom(count: () => Promise<number>, clock: { monotonic(): number }): () => Promise<number> {
  let last = 0;
  let again = Number.NEGATIVE_INFINITY;
  return async () => {
    const began = clock.monotonic();
    if (began < again) return last;
    last = await count();
    const now = clock.monotonic();
    again = now + (now - began) * COUNT_SHARE;
    return last;
  };
}
