/** Ordered reading: one sorted set of keys a shelf, so that a page costs its own length, whatever else is stored. */
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";
import { script } from "./calls.ts";
import type { Calls } from "./calls.ts";
import { RANGE } from "./commit-lua.ts";
import type { Now } from "./queue.ts";

const READ = script(RANGE);
const READING = { repeatable: true, changes: false };
/** Above every key that starts with what comes before it. */
const END = "\u007f";
/** Entries a script, so that no page holds Redis up for long. */
const PAGE = 500;

export function ranges(
  calls: Calls,
  tag: string,
  now: Now,
): (prefix: string, options?: RangeOptions) => Promise<readonly Entry[]> {
  /** The shelves that hold keys with this prefix, in key order. */
  async function shelvesOf(prefix: string, reverse: boolean): Promise<readonly string[]> {
    const colon = prefix.indexOf(":");
    if (colon >= 0) return [prefix.slice(0, colon + 1)];
    const shelves = await calls.ask(
      (client) => client.zrangebylex(`${tag}:shelves`, `[${prefix}`, `[${prefix}${END}`),
      READING,
    );
    return reverse ? shelves.reverse() : shelves;
  }

  async function page(
    shelf: string,
    from: string,
    to: string,
    limit: number,
    reverse: boolean,
  ): Promise<readonly Entry[]> {
    const reply = (await calls.run(READ, [now(), shelf, from, to, limit, reverse ? 1 : 0], READING)) as (
      | string
      | null
    )[];
    const entries: Entry[] = [];
    for (let i = 0; i < reply.length; i += 2) {
      const value = reply[i + 1];
      if (value !== null && value !== undefined) entries.push({ key: shelf + reply[i], value });
    }
    return entries;
  }

  async function readShelf(
    found: Entry[],
    shelf: string,
    prefix: string,
    after: string | undefined,
    limit: number,
    reverse: boolean,
  ): Promise<void> {
    const rest = prefix.slice(shelf.length);
    let from = prefix.length <= shelf.length ? "-" : `[${rest}`;
    let to = prefix.length <= shelf.length ? "+" : `[${rest}${END}`;
    let edge = after;
    for (;;) {
      if (edge !== undefined) {
        const bound = boundOf(shelf, prefix, edge, reverse);
        if (bound === "none") return;
        if (bound !== "all" && reverse) to = bound;
        else if (bound !== "all") from = bound;
      }
      const wanted = Math.min(PAGE, limit - found.length);
      const entries = await page(shelf, from, to, wanted, reverse);
      found.push(...entries);
      if (found.length >= limit || entries.length < wanted) return;
      edge = entries.at(-1)?.key;
    }
  }

  return async (prefix, { after, limit = 100, reverse = false } = {}) => {
    const found: Entry[] = [];
    if (limit <= 0) return found;
    for (const shelf of await shelvesOf(prefix, reverse)) {
      await readShelf(found, shelf, prefix, after, limit, reverse);
      if (found.length >= limit) break;
    }
    return found;
  };
}

/** Where `after` cuts a shelf: a bound as ZRANGEBYLEX has it, `all` when it is before it, `none` when it is behind. */
function boundOf(shelf: string, prefix: string, after: string, reverse: boolean): string {
  const begin = prefix.length > shelf.length ? prefix : shelf;
  if (after.startsWith(shelf) && (shelf.endsWith(":") || after === shelf) && after.startsWith(begin))
    return `(${after.slice(shelf.length)}`;
  const before = after < begin;
  return before === reverse ? "none" : "all";
}
