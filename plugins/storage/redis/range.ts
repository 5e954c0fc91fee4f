/** Reads by key and in key order: one sorted set of keys per prefix, so that a page costs only its own length. */
import type { Entry, Storage } from "../../../core/ports/storage.ts";
import type { Calls } from "./calls.ts";
import { MANY, RANGE } from "./commit-lua.ts";
import type { Now } from "./time-argument.ts";

type Reads = Pick<Calls, "run" | "ask">;

/** Sorts after every key that starts with the text before it. */
const END = "\u007f";
/** Entries per script, so that no page blocks Redis for long. */
const PAGE = 500;
/** Bytes of values per call, plus the value that exceeds them: far below what takes as long as a call may. */
const PAGE_BYTES = 1024 * 1024;
/** Up to this many keys are read by a plain MGET, which costs Redis less than a script. */
const FEW = 4;

/** Returns values in the order of the keys, however many and however long they are. */
export const manyValues =
  (calls: Reads, tag: string, now: Now): Storage["getMany"] =>
  async (keys) => {
    const values: (string | undefined)[] = [];
    while (values.length < keys.length) {
      const asked = keys.slice(values.length, values.length + PAGE);
      const found =
        keys.length <= FEW
          ? await calls.ask((client) => client.mget(asked.map((key) => `${tag}:r:${key}`)))
          : ((await calls.run(MANY, [now(), PAGE_BYTES, ...asked])) as (string | null)[]);
      for (const value of found) values.push(value ?? undefined);
    }
    return values;
  };

export function ranges(calls: Reads, tag: string, now: Now): Storage["range"] {
  /** Returns the stored prefixes that may hold keys with this prefix, in the order of reading. */
  async function storedOf(prefix: string, reverse: boolean): Promise<readonly string[]> {
    const colon = prefix.indexOf(":");
    if (colon >= 0) return [prefix.slice(0, colon + 1)];
    const stored = await calls.ask((client) => client.zrangebylex(`${tag}:shelves`, `[${prefix}`, `[${prefix}${END}`));
    return reverse ? stored.reverse() : stored;
  }

  return async (prefix, { after, limit = 100, reverse = false } = {}) => {
    const found: Entry[] = [];
    if (limit <= 0) return found;
    for (const stored of await storedOf(prefix, reverse)) {
      for (let last = after, all = 0; all === 0 && found.length < limit;) {
        const low = !reverse && last !== undefined && last > prefix;
        const high = reverse && last !== undefined && last < prefix + END;
        const from = low ? boundOf(stored, last as string, "(") : boundOf(stored, prefix, "[");
        const to = boundOf(stored, high ? (last as string) : prefix + END, "(");
        const most = Math.min(PAGE, limit - found.length);
        const reply = await calls.run(RANGE, [now(), stored, from, to, most, reverse ? 1 : 0, PAGE_BYTES]);
        const [whole, ...rows] = reply as [number, ...(string | null)[]];
        for (let i = 0; i < rows.length; i += 2) {
          const value = rows[i + 1];
          if (value !== null && value !== undefined) found.push({ key: stored + rows[i], value });
        }
        all = whole;
        last = stored + rows.at(-2);
      }
    }
    return found;
  };
}

/** Returns a bound for ZRANGEBYLEX within the keys of a stored prefix. */
function boundOf(stored: string, key: string, sign: "(" | "["): string {
  if (key.startsWith(stored)) return sign + key.slice(stored.length);
  return key < stored ? "-" : "+";
}
