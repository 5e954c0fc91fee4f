/**
 * Finds what a clock that was ahead has stored for longer than its rule could have asked for: ids of erased events, and
 * requests with an Idempotency-Key, which would stay taken until the clock gets there.
 */
import { expiryKey, parseExpiryKey } from "../model/keys.ts";
import type { Clock } from "../ports/clock.ts";
import type { Entry, Storage } from "../ports/storage.ts";

/** Both kinds are kept for a day, ms. */
const KEPT_MS = 86_400_000;
const LOOK_MS = 1_800_000;
const PAGE = 500;
/** Most lines that are remembered. The others have their turn when these are gone. */
const MOST = 10_000;

/**
 * Returns the expiry lines of what this node has seen for a day, so that it was kept for long enough whichever clock is
 * wrong: by the wall clock alone, one that is behind would forget what a right one has stored. Looks every half hour.
 */
export function createOverlongExpiries(
  storage: Pick<Storage, "range">,
  clock: Pick<Clock, "now" | "monotonic">,
): () => Promise<readonly Entry[]> {
  /** Monotonic ms at which a line was first seen, by its key. */
  let seen = new Map<string, number>();
  let nextLook = Number.NEGATIVE_INFINITY;

  return async () => {
    const at = clock.monotonic();
    if (at < nextLook) return [];
    const still = new Map<string, number>();
    const over: Entry[] = [];
    for (let after = expiryKey(clock.now() + 2 * KEPT_MS, ""); still.size < MOST;) {
      const page: readonly Entry[] = await storage.range("expiry:", { after, limit: PAGE });
      for (const line of page) {
        if (!/^(?:eventid|idempotency):/.test(parseExpiryKey(line.key).target)) continue;
        const since = seen.get(line.key) ?? at;
        still.set(line.key, since);
        if (at - since >= KEPT_MS) over.push(line);
      }
      if (page.length < PAGE) break;
      after = page.at(-1)?.key as string;
    }
    seen = still;
    nextLook = at + LOOK_MS;
    return over;
  };
}
