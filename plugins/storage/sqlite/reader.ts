/**
 * Reads on the main thread, through read-only connections: 2–3 µs a key and 55 µs a page of 250 lines, where a message
 * to a thread costs more than that and waits behind its batch. A read sees every commit that was acknowledged.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { StorageError } from "../../../core/model/errors.ts";
import { DUE } from "../../../core/model/schema.ts";
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";
import { bounds } from "../embedded/sorted-keys.ts";
import { faultOf } from "./faults.ts";

type Row = readonly [key: string, value: string];
/** Sorts after every key, as those are printable ASCII. */
const LAST = "\u007f";

interface Table {
  readonly get: StatementSync;
  readonly page: Readonly<Record<"ASC" | "DESC", StatementSync>>;
}
interface Open {
  count?: StatementSync;
  readonly db: DatabaseSync;
  readonly record: Table;
  readonly line: Table;
}

/** @param cacheKiB pages kept in memory */
export async function openReader(path: string, cacheKiB: number) {
  const { DatabaseSync } = await import("node:sqlite");
  let open: Open | undefined;
  let closed = false;

  function connect(): Open {
    const db = new DatabaseSync(path, { readOnly: true, timeout: 1_000 });
    db.exec(`PRAGMA cache_size = -${cacheKiB}`);
    const prepare = (sql: string): StatementSync => {
      const statement = db.prepare(sql);
      statement.setReturnArrays(true);
      return statement;
    };
    const table = (name: string): Table => ({
      get: prepare(`SELECT value FROM ${name} WHERE key = ?`),
      page: {
        ASC: prepare(`SELECT key, value FROM ${name} WHERE key >= ? AND key < ? ORDER BY key ASC LIMIT ?`),
        DESC: prepare(`SELECT key, value FROM ${name} WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT ?`),
      },
    });
    return { db, record: table("record"), line: table("line") };
  }

  /** Runs a read; a connection that failed is not used again. */
  function read<T>(use: (own: Open) => T): T {
    if (closed) throw new StorageError("unavailable", "the storage is closed");
    try {
      open ??= connect();
      return use(open);
    } catch (error) {
      drop();
      const { fault, message } = faultOf(error, path);
      throw new StorageError(fault, message, { cause: error });
    }
  }

  function drop(): void {
    try {
      open?.db.close();
    } catch {
      // The connection is abandoned anyway.
    }
    open = undefined;
  }

  function valueOf(own: Open, key: string): string | undefined {
    const table = DUE.has(key) ? own.line : own.record;
    return (table.get.get(key) as unknown as readonly [string] | undefined)?.[0];
  }

  read(() => undefined);
  return {
    getMany: (keys: readonly string[]): (string | undefined)[] =>
      read((own) => {
        if (keys.length < 2) return keys.map((key) => valueOf(own, key));
        // One snapshot, and one lock, for all of them.
        own.db.exec("BEGIN");
        const values = keys.map((key) => valueOf(own, key));
        own.db.exec("COMMIT");
        return values;
      }),
    range: (prefix: string, { after, limit = 100, reverse = false }: RangeOptions = {}): Entry[] =>
      read((own) => {
        const { from, to = LAST } = bounds(prefix, after, reverse);
        const page = (table: Table): Row[] =>
          table.page[reverse ? "DESC" : "ASC"].all(from, to, limit) as unknown as Row[];
        const rows = DUE.has(prefix)
          ? page(own.line)
          : DUE.start.startsWith(prefix)
            ? merge(page(own.record), page(own.line), reverse, limit)
            : page(own.record);
        return rows.map(([key, value]) => ({ key, value }));
      }),
    /** Returns how many due lines start with the prefix: 50 µs for a thousand. */
    count: (prefix: string): number =>
      read((own) => {
        own.count ??= own.db.prepare("SELECT count(*) AS n FROM line WHERE key >= ? AND key < ?");
        return own.count.get(prefix, `${prefix}${LAST}`)?.["n"] as number;
      }),
    /** Returns bytes in use and free inside the file. */
    pages: () =>
      read((own) => {
        const number = (pragma: string): number =>
          Object.values(own.db.prepare(`PRAGMA ${pragma}`).get() ?? {})[0] as number;
        const size = number("page_size");
        const free = number("freelist_count");
        return { used: (number("page_count") - free) * size, free: free * size };
      }),
    /** Returns what is wrong with the file, by SQLite's own check. */
    verify: (): readonly string[] =>
      read((own) => {
        const lines = own.db
          .prepare("PRAGMA integrity_check(100)")
          .all()
          .map((row) => String(Object.values(row)[0]));
        return lines.length === 1 && lines[0] === "ok" ? [] : lines;
      }),
    close(): void {
      closed = true;
      drop();
    },
  };
}

function merge(a: readonly Row[], b: readonly Row[], reverse: boolean, limit: number): Row[] {
  const sign = reverse ? -1 : 1;
  return [...a, ...b].toSorted(([one], [other]) => (one < other ? -sign : sign)).slice(0, limit);
}
