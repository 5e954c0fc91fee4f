/**
 * Reads on the main thread, through read-only connections: 2–3 µs a key and 55 µs a page of 250 lines, where a message
 * to a thread costs more than that and waits behind its batch. A read sees every commit that was acknowledged.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { StorageError } from "../../../core/model/errors.ts";
import { DUE } from "../../../core/model/schema.ts";
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";
import { bounds } from "../embedded/sorted-map.ts";
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
export async function openReader(path: string, cacheKiB: number): Promise<Reader> {
  const { DatabaseSync } = await import("node:sqlite");
  const reader = new Reader(path, () => {
    const db = new DatabaseSync(path, { readOnly: true, timeout: 1_000 });
    db.exec(`PRAGMA cache_size = -${cacheKiB}`);
    return { db, record: prepareTable(db, "record"), line: prepareTable(db, "line") };
  });
  reader.check();
  return reader;
}

function prepareTable(db: DatabaseSync, name: string): Table {
  const prepare = (sql: string): StatementSync => {
    const statement = db.prepare(sql);
    statement.setReturnArrays(true);
    return statement;
  };
  const page = (order: "ASC" | "DESC"): StatementSync =>
    prepare(`SELECT key, value FROM ${name} WHERE key >= ? AND key < ? ORDER BY key ${order} LIMIT ?`);
  return {
    get: prepare(`SELECT value FROM ${name} WHERE key = ?`),
    page: { ASC: page("ASC"), DESC: page("DESC") },
  };
}

class Reader {
  readonly #path: string;
  readonly #connect: () => Open;
  #open: Open | undefined;
  #closed = false;

  constructor(path: string, connect: () => Open) {
    this.#path = path;
    this.#connect = connect;
  }

  /** @throws StorageError when the database cannot be read */
  check(): void {
    this.#read(() => undefined);
  }

  getMany(keys: readonly string[]): (string | undefined)[] {
    return this.#read((own) => {
      if (keys.length < 2) return keys.map((key) => valueOf(own, key));
      // One snapshot, and one lock, for all of them.
      own.db.exec("BEGIN");
      const values = keys.map((key) => valueOf(own, key));
      own.db.exec("COMMIT");
      return values;
    });
  }

  range(prefix: string, { after, limit = 100, reverse = false }: RangeOptions = {}): Entry[] {
    return this.#read((own) => {
      const { from, to = LAST } = bounds(prefix, after, reverse);
      const page = (table: Table): Row[] =>
        table.page[reverse ? "DESC" : "ASC"].all(from, to, limit) as unknown as Row[];
      const rows = DUE.has(prefix)
        ? page(own.line)
        : DUE.start.startsWith(prefix)
          ? merge(page(own.record), page(own.line), reverse, limit)
          : page(own.record);
      return rows.map(([key, value]) => ({ key, value }));
    });
  }

  /** Returns how many due lines start with the prefix: 50 µs for a thousand. */
  count(prefix: string): number {
    return this.#read((own) => {
      own.count ??= own.db.prepare("SELECT count(*) AS n FROM line WHERE key >= ? AND key < ?");
      return own.count.get(prefix, `${prefix}${LAST}`)?.["n"] as number;
    });
  }

  /** Returns bytes in use and free inside the file. */
  pages(): { readonly used: number; readonly free: number } {
    return this.#read(({ db }) => {
      const size = number(db, "page_size");
      const free = number(db, "freelist_count");
      return { used: (number(db, "page_count") - free) * size, free: free * size };
    });
  }

  /** Returns what is wrong with the file, by SQLite's own check. */
  verify(): readonly string[] {
    return this.#read(({ db }) => {
      const rows = db.prepare("PRAGMA integrity_check(100)").all();
      const lines = rows.map((row) => String(Object.values(row)[0]));
      return lines.length === 1 && lines[0] === "ok" ? [] : lines;
    });
  }

  close(): void {
    this.#closed = true;
    this.#drop();
  }

  /** Runs a read; a connection that failed is not used again. */
  #read<T>(use: (own: Open) => T): T {
    if (this.#closed) throw new StorageError("unavailable", "the storage is closed");
    try {
      return use((this.#open ??= this.#connect()));
    } catch (error) {
      this.#drop();
      const { fault, message } = faultOf(error, this.#path);
      throw new StorageError(fault, message, { cause: error });
    }
  }

  #drop(): void {
    try {
      this.#open?.db.close();
    } catch {
      // The connection is abandoned anyway.
    }
    this.#open = undefined;
  }
}

const number = (db: DatabaseSync, pragma: string): number =>
  Object.values(db.prepare(`PRAGMA ${pragma}`).get() ?? {})[0] as number;

function valueOf(own: Open, key: string): string | undefined {
  const table = DUE.has(key) ? own.line : own.record;
  return (table.get.get(key) as unknown as readonly [string] | undefined)?.[0];
}

function merge(a: readonly Row[], b: readonly Row[], reverse: boolean, limit: number): Row[] {
  const sign = reverse ? -1 : 1;
  return [...a, ...b].toSorted(([one], [other]) => (one < other ? -sign : sign)).slice(0, limit);
}
