/** Turns rows of the limits table and the `abuse` rule into takes for the counters, and makes the keys of these. */
import { hash } from "node:crypto";
import type { Abuse, Take } from "../model/windows.ts";
import type { AbuseOptions, LimitRow, LimitRows } from "../ports/plan.ts";
import { routeShape } from "./route-limits.ts";

export interface Caller {
  readonly principal: string;
  /** Widens the row: `/v1` counts the address at 10 × the row. */
  readonly factor?: number;
  /** Several callers share these windows, so one that is refused too often is suspended alone. */
  readonly shared?: boolean;
}

const MINUTE = 60_000;
const BURST = 5_000;
/** The row of failed authentications, by address: no endpoint has this name. Only `false` in the rows switches it off. */
export const FAILED_AUTHENTICATION_ROW = "failed authentication";
const FAILED_AUTHENTICATION: LimitRow = { perMinute: 300, per5s: 300 };

export function createTakes(given: LimitRows, abuse: AbuseOptions | false) {
  const rows = byShape(given);
  const shapes = new Map<string, string>();
  const windows = new Map<LimitRow, Map<number, Omit<Take, "key">>>();

  const shapeOf = (row: string): string => {
    let shape = shapes.get(row);
    if (shape === undefined) shapes.set(row, (shape = routeShape(row)));
    return shape;
  };

  /** The windows of a row are the same objects for all callers, because counters keep one reference per caller. */
  function windowsOf(row: LimitRow, factor: number): Omit<Take, "key"> {
    const made = windows.get(row)?.get(factor);
    if (made !== undefined) return made;
    const perMinute = row.perMinute * factor;
    const both = {
      sustained: { limit: perMinute, windowMs: MINUTE },
      burst: { limit: row.per5s * factor, windowMs: BURST },
    };
    const fresh = abuse === false ? both : { ...both, abuse: ruleOf(abuse, perMinute) };
    windows.set(row, (windows.get(row) ?? new Map<number, Omit<Take, "key">>()).set(factor, fresh));
    return fresh;
  }

  return {
    /** Returns one take per caller; none where the row is missing or switched off. */
    of(row: string, callers: readonly (string | Caller)[]): Take[] {
      const shape = shapeOf(row);
      const limits = rows.get(shape);
      if (limits === undefined) return [];
      return callers.map((caller) => {
        const { principal, factor = 1, shared } = typeof caller === "string" ? { principal: caller } : caller;
        const { sustained, burst, abuse } = windowsOf(limits, factor);
        return { key: counterKey(shape, principal), sustained, burst, abuse: shared ? undefined : abuse };
      });
    },
    /** Returns the take that counts a failed authentication; none where that is switched off. */
    failedAuthentication(address: string): Take | undefined {
      if (given[FAILED_AUTHENTICATION_ROW] === false) return undefined;
      const { sustained, burst } = windowsOf(FAILED_AUTHENTICATION, 1);
      return { key: counterKey("unauthenticated", address), sustained, burst };
    },
  };
}

const ruleOf = ({ factor, windowMs, suspendMs, maxSuspendMs, forgetMs }: AbuseOptions, perMinute: number): Abuse => {
  return { refusals: factor * perMinute, windowMs, suspendMs, maxSuspendMs, forgetMs };
};

function byShape(rows: LimitRows): ReadonlyMap<string, LimitRow> {
  const found = new Map<string, LimitRow>();
  // A later spelling of the same operation replaces an earlier one: overrides come after the defaults.
  for (const [name, row] of Object.entries(rows)) {
    if (row === false) found.delete(routeShape(name));
    else found.set(routeShape(name), row);
  }
  return found;
}

const LONGEST = 150;
const PRINTABLE = /^[\x20-\x7e]*$/;

/** Returns the key of a counter, short and printable whatever a token's `sub` or a caller's API key is: at most 200 bytes; one (endpoint, principal) always has the same key, and no two share one. */
export function counterKey(endpoint: string, principal: string): string {
  // A hashed principal starts with `#`, so one that starts like that itself is hashed too.
  if (principal.length + endpoint.length < LONGEST && !principal.startsWith("#") && PRINTABLE.test(principal))
    return `${endpoint} ${principal}`;
  const short = endpoint.length < LONGEST - 50 ? endpoint : `#${hash("sha256", endpoint, "base64url")}`;
  return `${short} #${hash("sha256", principal, "base64url")}`;
}

/** Returns the principal of an API key that nobody has verified: its hash, so that no counter or record contains the key. */
export const apiKeyPrincipal = (apiKey: string): string => `key ${hash("sha256", apiKey, "base64url")}`;
