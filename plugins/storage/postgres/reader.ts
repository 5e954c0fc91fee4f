/** Reads by key, many callers in one query, and in key order. */
import type { Storage } from "../../../core/ports/storage.ts";
import { DUE } from "../../../core/model/schema.ts";
import { texts } from "./arrays.ts";
import type { Link } from "./link.ts";

/** Keys per query. */
const MOST = 1_000;
/** How long a page may take, ms. */
const RANGE_MS = 10_000;
/** Sorts after every key that starts with the text before it. */
const END = "\u007f";

interface Asking {
  readonly keys: readonly string[];
  readonly resolve: (values: readonly (string | undefined)[]) => void;
  readonly reject: (error: unknown) => void;
}

/** Returns values in the order of the keys. What is asked while a query is under way goes together in the next. */
export function manyValues(link: Link, schema: string): Storage["getMany"] {
  const asking: Asking[] = [];
  let busy = false;
  const select = (table: string): string => `select key, value from "${schema}".${table} where key = any($1)`;

  async function read(table: string, keys: readonly string[], into: Map<string, string>): Promise<void> {
    for (let i = 0; i < keys.length; i += MOST) {
      const some = keys.slice(i, i + MOST);
      const rows = await link.run({ name: `many_${table}`, text: select(table), values: () => [texts(some)] });
      for (const [key, value] of rows) into.set(key as string, value as string);
    }
  }

  async function next(): Promise<void> {
    const group: Asking[] = [];
    for (let keys = 0; asking.length > 0 && keys < MOST; keys += group.at(-1)?.keys.length ?? 0)
      group.push(asking.shift() as Asking);
    const all = new Set(group.flatMap(({ keys }) => keys));
    const found = new Map<string, string>();
    try {
      await read(
        "kv",
        [...all].filter((key) => !DUE.has(key)),
        found,
      );
      await read(
        "due",
        [...all].filter((key) => DUE.has(key)),
        found,
      );
      for (const { keys, resolve } of group) resolve(keys.map((key) => found.get(key)));
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
    busy = false;
    schedule();
  }
  function schedule(): void {
    if (busy || asking.length === 0) return;
    busy = true;
    setImmediate(() => void next());
  }
  return (keys) =>
    keys.length === 0
      ? Promise.resolve([])
      : new Promise((resolve, reject) => {
          asking.push({ keys, resolve, reject });
          schedule();
        });
}

export function ranges(link: Link, schema: string): Storage["range"] {
  return async (prefix, { after, limit = 100, reverse = false } = {}) => {
    if (limit <= 0) return [];
    const end = prefix + END;
    const low = !reverse && after !== undefined && after >= prefix ? after : undefined;
    const high = reverse && after !== undefined && after < end ? after : end;
    const order = `order by key ${reverse ? "desc" : "asc"} limit $3`;
    const one = (table: string): string =>
      `(select key, value from "${schema}".${table} where key ${low === undefined ? ">=" : ">"} $1 and key < $2 ${order})`;
    const tables = DUE.has(prefix) ? ["due"] : DUE.start.startsWith(prefix) ? ["kv", "due"] : ["kv"];
    const text = tables.length === 1 ? one(tables[0] as string) : `${tables.map(one).join(" union all ")} ${order}`;
    const rows = await link.run({ text, values: () => [low ?? prefix, high, limit] }, { answerMs: RANGE_MS });
    return rows.map(([key, value]) => ({ key: key as string, value: value as string }));
  };
}
