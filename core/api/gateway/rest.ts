/** What the upstream asked for with `Retry-After`: nothing goes there for as long, of one row and key, or at all. */
import { setNewest } from "../../model/bounded-map.ts";
import { routeShape } from "../../limits/route-limits.ts";
import type { Clock } from "../../ports/clock.ts";

/** Rows and keys that are remembered. Beyond it the one that was added first is forgotten: its next request asks again. */
const HELD = 10_000;

export interface UpstreamRest {
  /** How long it still lasts for this row and key, ms; 0 when it is over. */
  leftMs(row: string, key: string): number;
  /** After a 429: nothing more of this row and key. */
  row(row: string, key: string, ms: number): void;
  /** After a 503: nothing more at all. */
  all(ms: number): void;
}

export function createUpstreamRest(clock: Pick<Clock, "monotonic">): UpstreamRest {
  const rows = new Map<string, number>();
  let allUntil = 0;
  // Two forms of one operation are one row.
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
