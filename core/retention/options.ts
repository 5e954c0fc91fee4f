/** The options of retention: how long ended events are kept, and what differs for some API keys and event types. */
import { createHash } from "node:crypto";
import { matchesPattern } from "../model/names.ts";
import type { RetentionRule } from "../ports/plan.ts";

export interface RetentionOptions {
  /** Age at which delivered, cancelled and unmatched events are deleted, ms. `undefined`: never. */
  readonly deliveredAfterMs?: number;
  readonly failedAfterMs?: number;
  /** API key → what differs for it. */
  readonly keys?: Readonly<Record<string, RetentionRule>>;
  /** Pattern of event names → what differs for those that match, unless their key says otherwise. The first one counts. */
  readonly types?: Readonly<Record<string, RetentionRule>>;
}

/** How long an event is kept after its end, ms; `undefined`: for ever. */
interface Keep {
  readonly deliveredAfterMs: number | undefined;
  readonly failedAfterMs: number | undefined;
}

const FIELDS = ["deliveredAfterMs", "failedAfterMs"] as const;

/** Returns how long the events of this key and type are kept: as their key says, else their type, else the job. */
export function keepOf(options: RetentionOptions, keyId: string, type: string): Keep {
  const { keys, types = {} } = options;
  const own = ruleOfKey(keys, keyId);
  const pattern = Object.keys(types).find((one) => matchesPattern(one, type));
  const typed = pattern === undefined ? undefined : types[pattern];
  const pick = (field: (typeof FIELDS)[number]): number | undefined =>
    ms(own?.[field] ?? typed?.[field] ?? options[field]);
  return { deliveredAfterMs: pick("deliveredAfterMs"), failedAfterMs: pick("failedAfterMs") };
}

/** Returns the least age at which any event of the key may be deleted, ms; `undefined`: none ever is. */
export function youngestOf(options: RetentionOptions, keyId: string): number | undefined {
  const own = ruleOfKey(options.keys, keyId);
  const ages = FIELDS.flatMap((field) => {
    if (own?.[field] !== undefined) return [own[field]];
    return [options[field], ...Object.values(options.types ?? {}).map((rule) => rule[field])];
  });
  const least = Math.min(...ages.map((age) => ms(age) ?? Infinity));
  return least === Infinity ? undefined : least;
}

/** Returns true when anything is ever deleted. */
export const removesAny = ({ keys = {}, types = {}, ...whole }: RetentionOptions): boolean =>
  [whole, ...Object.values(keys), ...Object.values(types)].some((rule) =>
    FIELDS.some((field) => ms(rule[field]) !== undefined),
  );

/** Names the options in keys of the storage: with other ones, every event is judged again. */
export function ruleOf({ deliveredAfterMs, failedAfterMs, keys, types }: RetentionOptions): string {
  const whole = `${deliveredAfterMs ?? "never"}_${failedAfterMs ?? "never"}`;
  if (keys === undefined && types === undefined) return whole;
  const parts = [keys, types].map((rules) => Object.entries(rules ?? {}));
  return `${whole}_${createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16)}`;
}

const ruleOfKey = (keys: RetentionOptions["keys"], keyId: string): RetentionRule | undefined =>
  keys !== undefined && Object.hasOwn(keys, keyId) ? keys[keyId] : undefined;

/** Ids must be recognised as duplicates for at least a day, so nothing is deleted sooner. */
const LEAST_AGE_MS = 86_400_000;

const ms = (age: number | false | undefined): number | undefined =>
  age === false || age === undefined ? undefined : Math.max(age, LEAST_AGE_MS);
