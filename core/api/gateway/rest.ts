/** Keeps the `Retry-After` of the upstream: for one row and key after a 429, for all requests after a 503. */
import { setNewest } from "../../lib/bounded-map.ts";
import { routeShape } from "../../limits/route-limits.ts";
import type { Clock } from "../../ports/clock.ts";

/** Most rows and keys that are remembered; the oldest one is forgotten first. */
const HELD = 10_000;

interface UpstreamRest {
  /** The time that is left for this row and key, ms; 0 when there is none. */
  leftMs(row: string, key: string): number;
  /** After a 429: stops requests of this row and key. */
  row(row: string, key: string, ms: number): void;
  /** After a 503: stops all requests. */
  all(ms: number): void;
}

export function createUpstreamRest(clock: Pick<Clock, "monotonic">): UpstreamRest {
  const rows = new Map<string, number>();
  let allUntil = 0;
  // The two forms of an operation share a row.
  const nameOf = (row: string, key: string): string => `${routeShape(row)} ${key}`;
  return {
    leftMs(row, key) {
      const now = clock.monotonic();
      const name = rows.size === 0 ? "" : nameOf(row, key);
      const until = rows.get(name) ?? 0;
      if (until > 0 && until <= now) rows.delete(name);
      return Math.max(0, until - now, allUntil - now);
    },
    row(row, key, ms) {
      setNewest(rows, nameOf(row, key), clock.monotonic() + ms, HELD);
    },
    all(ms) {
      allUntil = Math.max(allUntil, clock.monotonic() + ms);
    },
  };
}
