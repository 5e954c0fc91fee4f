/**
 * Reads a growing table and writes nothing to it. Rows are read in the order of their transactions and ids, and only those
 * of transactions that began before every open one: a transaction that commits late still comes after the cursor.
 */
import { verified, withChecksum } from "../../../core/lib/checksum.ts";
import { ConflictError } from "../../../core/model/errors.ts";
import type { ScopedStorage } from "../../../core/ports/plugin.ts";
import type { Intake } from "../messages/intake.ts";
import type { DeadLetters } from "../messages/dead-letters.ts";
import type { Columns, Connection } from "../../brokers/sql/connection.ts";
import type { Layout, Wanted } from "../outbox/layout.ts";
import { fitted } from "../outbox/reader.ts";
import { Batch, backlogOf, type Reader, type Row } from "../outbox/rows.ts";
import { quoted } from "../outbox/statements.ts";
import { postgresDialect as dialect } from "./dialect.ts";

interface CursorParts {
  readonly intake: Pick<Intake<Row>, "room" | "offer">;
  readonly wanted: Wanted;
  readonly storage: ScopedStorage;
  /** Keeps the rows that hold no valid event. */
  readonly kept: Pick<DeadLetters, "keep">;
}

/** The last row whose events are stored. */
interface Cursor {
  readonly tx: string;
  readonly id: string;
}

const PAGE = 1_000;

export class CursorReader implements Reader {
  readonly #parts: CursorParts;
  readonly #key: string;
  #layout: Layout | undefined;
  #cursor: Cursor | undefined;
  /** The cursor as it was last seen in the storage. */
  #stored: string | undefined;

  constructor(parts: CursorParts) {
    this.#parts = parts;
    this.#key = `cursor:${parts.wanted.table.label}`;
  }

  async check(connection: Connection): Promise<void> {
    this.#layout = (await fitted(connection, dialect, this.#parts.wanted)).layout;
    await this.#refresh();
    const [row] = await connection.rows("SELECT pg_snapshot_xmax(pg_current_snapshot()) AS xmax");
    // In a database that was restored elsewhere, transactions count from the start: new rows would be before the cursor.
    if (this.#cursor !== undefined && BigInt(row?.["xmax"] ?? "0") < BigInt(this.#cursor.tx))
      throw new Error(
        `${this.#label} is in another database than before: give the source a new name to read it from its start`,
      );
  }

  /** Reads a page while the one before is being stored, as far as there is room. The cursor follows in order. */
  async drain(connection: Connection, signal: AbortSignal): Promise<void> {
    const { intake } = this.#parts;
    let behind = this.#cursor;
    let done = Promise.resolve(true);
    let failed = false;
    try {
      while (!signal.aborted && !failed) {
        const count = Math.min(PAGE, await intake.room());
        if (count === 0) break;
        // Another node may be further.
        if (this.#cursor !== undefined && (behind === undefined || this.#isBefore(behind, this.#cursor)))
          behind = this.#cursor;
        const found = await this.#read(connection, behind, count);
        if (found.length === 0) break;
        const batch = new Batch(this.#table, found);
        behind = this.#placeOf(found.at(-1) as Columns);
        intake.offer(batch.rows);
        done = this.#finish(batch, behind, done);
        done.catch(() => (failed = true));
        if (found.length < count) break;
      }
    } finally {
      // Rows under way are settled before anything is read again.
      await done;
    }
  }

  /** Counts those of transactions that an open one holds back too. */
  backlog(connection: Connection) {
    const { from, id, which, order, values } = this.#behind(this.#cursor);
    return backlogOf(connection, [from, id, `WHERE ${which} ORDER BY ${order}`], values);
  }

  /** Reads the next rows behind a place: at most as many as may be in flight. */
  #read(connection: Connection, behind: Cursor | undefined, count: number): Promise<readonly Columns[]> {
    const { from, tx, which, order, values } = this.#behind(behind);
    return connection.rows(
      `SELECT * FROM ${from} WHERE ${which} AND ${tx} < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY ${order} LIMIT ${count}`,
      values,
    );
  }

  /** The parts of a statement that reads behind a place. Text is in the order of its bytes, as here, in each database. */
  #behind(cursor: Cursor | undefined) {
    const { table, idKind } = this.#table;
    const [tx, id] = [dialect.name(this.#table.tx), dialect.name(this.#table.id)];
    const order = `${tx}, ${id}${idKind === "text" ? ' COLLATE "C"' : ""}`;
    const place = `($1::xid8, $2::${CASTS[idKind as keyof typeof CASTS]})`;
    const [which, values] = cursor === undefined ? ["true", []] : [`(${order}) > ${place}`, [cursor.tx, cursor.id]];
    return { from: quoted(dialect, table), tx, id, order, which, values };
  }

  get #table(): Layout {
    if (this.#layout === undefined) throw new Error("the table was not looked at yet");
    return this.#layout;
  }

  get #label(): string {
    return this.#parts.wanted.table.label;
  }

  #placeOf(columns: Columns): Cursor {
    return { tx: columns[this.#table.tx] as string, id: columns[this.#table.id] as string };
  }

  #isBefore(one: Cursor, other: Cursor): boolean {
    if (BigInt(one.tx) !== BigInt(other.tx)) return BigInt(one.tx) < BigInt(other.tx);
    if (this.#table.idKind === "number") return BigInt(one.id) < BigInt(other.id);
    return Buffer.compare(Buffer.from(one.id), Buffer.from(other.id)) < 0;
  }

  /**
   * Moves the cursor behind a batch when its rows are stored, and all before it are done. Resolves to whether it has.
   * @throws what keeping a bad row or moving the cursor throws, and what it threw for a batch before
   */
  async #finish(batch: Batch, last: Cursor, before: Promise<boolean>): Promise<boolean> {
    await batch.settled;
    try {
      const isMoved = (await before) && (await this.#isDone(batch));
      if (isMoved) await this.#move(last);
      batch.done.resolve([]);
      return isMoved;
    } catch (error) {
      batch.done.reject(error);
      throw error;
    }
  }

  /** Keeps the bad rows of a batch. Resolves to whether the cursor may move: rows given back are read again. */
  async #isDone({ rows, settled }: Batch): Promise<boolean> {
    const fates = await settled;
    if (fates.includes("returned")) return false;
    for (const [i, fate] of fates.entries())
      if (typeof fate !== "string") await this.#parts.kept.keep(rows[i] as Row, fate);
    return true;
  }

  /** Writes how far the source is. Nodes share the record: what is further there stays. */
  async #move(next: Cursor): Promise<void> {
    const value = encodeCursor(next);
    for (;;) {
      try {
        await this.#parts.storage.commit([{ op: "put", key: this.#key, value, if: this.#stored ?? null }]);
        [this.#cursor, this.#stored] = [next, value];
        return;
      } catch (error) {
        if (!(error instanceof ConflictError)) throw error;
        await this.#refresh();
        if (this.#cursor !== undefined && !this.#isBefore(this.#cursor, next)) return;
      }
    }
  }

  async #refresh(): Promise<void> {
    this.#stored = await this.#parts.storage.getItem(this.#key);
    this.#cursor = this.#stored === undefined ? undefined : decodeCursor(this.#stored);
    if (this.#stored !== undefined && this.#cursor === undefined)
      throw new Error(
        `its place in ${this.#label} is damaged: give the source a new name to read the table from its start`,
      );
  }
}

/** Encodes JSON, its checksum first: behind a changed digit, rows would be passed over. */
const encodeCursor = ({ tx, id }: Cursor): string => withChecksum(JSON.stringify({ tx, id }).slice(1));

/** Returns `undefined` for a damaged one. Version 0.1.0 wrote no checksum. */
function decodeCursor(text: string): Cursor | undefined {
  try {
    const proven = verified(text, '{"tx":');
    return proven && (JSON.parse(proven.text) as Cursor);
  } catch {
    return undefined;
  }
}

const CASTS = { number: "bigint", uuid: "uuid", text: "text", binary: "bytea" };
