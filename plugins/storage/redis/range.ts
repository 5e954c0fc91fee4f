/** Reads by key and in key order: one sorted set of keys per prefix, so that a page costs only its own length. */
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";
import { type Calls, script } from "./calls.ts";
import { MANY, RANGE } from "./commit-lua.ts";
import type { Now } from "./time-argument.ts";

const READ = script(RANGE);
const READ_MANY = script(MANY);
const READING = { repeatable: true, changes: false };
/** Sorts after every key that starts with the text before it. */
const END = "\u007f";
/** Entries per script, so that no page blocks Redis for long. */
const PAGE = 500;
/** Bytes of values per call, plus the value that exceeds them: far below what takes as long as a call may. */
const PAGE_BYTES = 1024 * 1024;
/** Up to this many keys are read by a plain MGET, which costs Redis less than a script. */
const FEW = 4;

/** Returns values in the order of the keys, however many and however long they are. */
export function manyValues(
  calls: Calls,
  tag: string,
  now: Now,
): (keys: readonly string[]) => Promise<readonly (string | undefined)[]> {
  const few = (keys: readonly string[]): Promise<(string | null)[]> =>
    calls.ask((client) => client.mget(keys.map((key) => `${tag}:r:${key}`)), READING);

  return async (keys) => {
    if (keys.length === 0) return [];
    const values: (string | undefined)[] = [];
    if (keys.length <= FEW) for (const value of await few(keys)) values.push(value ?? undefined);
    while (values.length < keys.length) {
      const asked = keys.slice(values.length, values.length + PAGE);
      const found = (await calls.run(READ_MANY, [now(), PAGE_BYTES, ...asked], READING)) as (string | null)[];
      for (const value of found) values.push(value ?? undefined);
    }
    return values;
  };
}

export function ranges(
  calls: Calls,
  tag: string,
  now: Now,
): (prefix: string, options?: RangeOptions) => Promise<readonly Entry[]> {
  /** Returns the stored prefixes that hold keys with this prefix, in key order. */
  async function prefixesOf(prefix: string, reverse: boolean): Promise<readonly string[]> {
    const colon = prefix.indexOf(":");
    if (colon >= 0) return [prefix.slice(0, colon + 1)];
    const stored = await calls.ask(
      (client) => client.zrangebylex(`${tag}:shelves`, `[${prefix}`, `[${prefix}${END}`),
      READING,
    );
    return reverse ? stored.reverse() : stored;
  }

  /** Adds a page to the result. Returns its last key, or `undefined` when nothing follows. */
  async function page(
    found: Entry[],
    stored: string,
    from: string,
    to: string,
    limit: number,
    reverse: boolean,
  ): Promise<string | undefined> {
    const args = [now(), stored, from, to, limit, reverse ? 1 : 0, PAGE_BYTES];
    const [all, ...rows] = (await calls.run(READ, args, READING)) as [number, ...(string | null)[]];
    for (let i = 0; i < rows.length; i += 2) {
      const value = rows[i + 1];
      if (value !== null && value !== undefined) found.push({ key: stored + rows[i], value });
    }
    return all === 1 ? undefined : stored + rows.at(-2);
  }

  async function readPrefix(
    found: Entry[],
    stored: string,
    prefix: string,
    after: string | undefined,
    limit: number,
    reverse: boolean,
  ): Promise<void> {
    const rest = prefix.slice(stored.length);
    let from = prefix.length <= stored.length ? "-" : `[${rest}`;
    let to = prefix.length <= stored.length ? "+" : `[${rest}${END}`;
    let edge = after;
    for (;;) {
      if (edge !== undefined) {
        const bound = boundOf(stored, prefix, edge, reverse);
        if (bound === "none") return;
        if (bound !== "all" && reverse) to = bound;
        else if (bound !== "all") from = bound;
      }
      edge = await page(found, stored, from, to, Math.min(PAGE, limit - found.length), reverse);
      if (found.length >= limit || edge === undefined) return;
    }
  }

  return async (prefix, { after, limit = 100, reverse = false } = {}) => {
    const found: Entry[] = [];
    if (limit <= 0) return found;
    for (const stored of await prefixesOf(prefix, reverse)) {
      await readPrefix(found, stored, prefix, after, limit, reverse);
      if (found.length >= limit) break;
    }
    return found;
  };
}

/** Returns where `after` cuts a prefix: a bound for ZRANGEBYLEX, `all` when it is before it, `none` when it is after it. */
function boundOf(stored: string, prefix: string, after: string, reverse: boolean): string {
  const begin = prefix.length > stored.length ? prefix : stored;
  if (after.startsWith(stored) && (stored.endsWith(":") || after === stored) && after.startsWith(begin))
    return `(${after.slice(stored.length)}`;
  const before = after < begin;
  return before === reverse ? "none" : "all";
}
