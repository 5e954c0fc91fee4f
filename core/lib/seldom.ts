/** Limits how much of the time a repeated count takes. */

/** A count is repeated only after this many times its own duration, so that counting does not become the work. */
const COUNT_SHARE = 20;
/** A count that lasts longer, ms, is not waited for by those who ask next: a storage may have lost its answer. */
const SHARED_MS = 60_000;

/**
 * Repeats a count only when it is cheap to do so; in between, the last one stands. Those who ask while one is under way
 * share it.
 * @param clock its time is monotonic, in ms
 */
export function seldom(count: () => Promise<number>, clock: { monotonic(): number }): () => Promise<number> {
  let last = 0;
  let again = Number.NEGATIVE_INFINITY;
  let underWay: { readonly began: number; readonly counted: Promise<number> } | undefined;

  async function counted(began: number): Promise<number> {
    last = await count();
    const now = clock.monotonic();
    again = now + (now - began) * COUNT_SHARE;
    return last;
  }

  return async () => {
    const now = clock.monotonic();
    if (now < again) return last;
    if (underWay !== undefined && now - underWay.began < SHARED_MS) return await underWay.counted;
    const one = { began: now, counted: counted(now) };
    underWay = one;
    try {
      return await one.counted;
    } finally {
      if (underWay === one) underWay = undefined;
    }
  };
}
