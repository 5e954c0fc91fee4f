/**
 * Reads an outbox: rows are deleted or marked by the statement that reads them, in a transaction that is committed once their
 * events are stored. Until then they are locked, and nobody else misses them.
 */
import { MAX_BATCH_EVENTS } from "../../../core/model/event.ts";
import { within } from "../../../core/lib/within.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import type { Intake } from "../messages/intake.ts";
import { causeOf } from "../../../core/lib/reason.ts";
import { literal, quoted, type Columns, type Connection, type OpenConnection } from "../../brokers/postgres.ts";
import { Batch, backlogOf, type Fate, type Reader, type Row } from "./rows.ts";

interface OutboxParts {
  readonly intake: Pick<Intake<Row>, "room" | "offer">;
  readonly connect: OpenConnection;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
  readonly source: string;
  readonly table: string;
  readonly done: "delete" | "mark";
}

/** Rows of one transaction: as many as are stored together. */
const PAGE = MAX_BATCH_EVENTS;
/** Longest that a transaction stays open, ms: an open one keeps the server from tidying its tables. */
const OPEN_MS = 30_000;
/** Codes of PostgreSQL that speak of the statement; those of lost connections, cancelled queries and faults of its own do not. */
const REFUSAL = /^(?!08|57|58)(?:\d\w|P0)\w{3}$/;

/** The statement that moves a bad row to the dead table. */
interface Move {
  readonly row: Row;
  readonly sql: string;
}

export class OutboxReader implements Reader {
  readonly #parts: OutboxParts;
  readonly #from: string;
  readonly #dead: string;
  /** A connection for a second transaction, and the work on it. */
  #spare: Connection | undefined;
  #helping: Promise<void> | undefined;
  /** Why the dead table does not take a row. */
  #refusal: string | undefined;

  constructor(parts: OutboxParts) {
    this.#parts = parts;
    [this.#from, this.#dead] = [quoted(parts.table), quoted(`${parts.table}_dead`)];
  }

  async check(connection: Connection): Promise<void> {
    const { table } = this.#parts;
    const names = [this.#from, this.#dead];
    const [found] = await connection.rows("SELECT to_regclass($1) AS own, to_regclass($2) AS dead", names);
    if (found?.["own"] === null) throw new Error(`there is no table ${table}`);
    if (found?.["dead"] === null) throw new Error(`there is no table ${table}_dead`);
  }

  async drain(connection: Connection, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && (await this.#page(connection)))
      this.#helping ??= this.#help(signal).finally(() => (this.#helping = undefined));
  }

  backlog(connection: Connection) {
    return backlogOf(connection, this.#parts.table, `${this.#open} ORDER BY id`);
  }

  async end(): Promise<void> {
    await this.#helping;
    await this.#spare?.close();
    this.#spare = undefined;
  }

  readiness(): string | undefined {
    return this.#refusal && `a row cannot be moved to ${this.#parts.table}_dead: ${this.#refusal}`;
  }

  /** Reads in a second transaction while the first one is committed. Without it, the first goes on alone. */
  async #help(signal: AbortSignal): Promise<void> {
    try {
      this.#spare ??= await this.#parts.connect(signal);
      while (!signal.aborted && (await this.#page(this.#spare)));
    } catch {
      await this.#spare?.close();
      this.#spare = undefined;
    }
  }

  /** Publishes one page. Resolves to whether there may be more. */
  async #page(connection: Connection): Promise<boolean> {
    const { intake, table } = this.#parts;
    const count = Math.min(PAGE, await intake.room());
    if (count === 0) return false;
    const found = (await connection.rows(`BEGIN; ${this.#take(count)}`)).toSorted(byId);
    if (found.length === 0) {
      await connection.rows("ROLLBACK");
      this.#noteRefusal(undefined);
      return false;
    }
    const batch = new Batch(table, found);
    intake.offer(batch.rows);
    let left: readonly Row[];
    try {
      left = await this.#publish(connection, batch);
      batch.done.resolve(left);
    } catch (error) {
      // The rows are stored or not; PostgreSQL unlocks them, and they are read again.
      await batch.settled;
      batch.done.reject(error);
      throw error;
    }
    return found.length === count && left.length < count;
  }

  /** Resolves to the rows that were left where they are, because the dead table refuses them. */
  async #publish(connection: Connection, { rows, settled }: Batch): Promise<readonly Row[]> {
    const waits = !(await within(this.#parts.clock, OPEN_MS, settled));
    if (waits) await connection.rows("ROLLBACK");
    const fates = await settled;
    if (!waits && fates.every((fate) => fate === "stored")) {
      await connection.rows("COMMIT");
      this.#noteRefusal(undefined);
      return [];
    }
    // All rows are there again, and each goes where it belongs.
    const [stored, moves] = [this.#finishStored(rows, fates), this.#movesOf(rows, fates)];
    try {
      await connection.rows(
        `${waits ? "" : "ROLLBACK; "}BEGIN; ${stored}${moves.map(({ sql }) => sql).join("")}COMMIT`,
      );
      this.#noteRefusal(undefined);
      return [];
    } catch (error) {
      if (moves.length === 0 || !isRefusal(error)) throw error;
    }
    await connection.rows(`ROLLBACK; ${stored}`);
    return this.#moveApart(connection, moves);
  }

  /** Moves each row by itself: one that the dead table refuses stays, is read again, and holds up no other. */
  async #moveApart(connection: Connection, moves: readonly Move[]): Promise<readonly Row[]> {
    const left: Row[] = [];
    for (const { row, sql } of moves) {
      try {
        await connection.rows(sql);
      } catch (error) {
        if (!isRefusal(error)) throw error;
        left.push(row);
        this.#noteRefusal(causeOf(error));
      }
    }
    return left;
  }

  #noteRefusal(why: string | undefined): void {
    const { log, source } = this.#parts;
    if (why !== undefined && this.#refusal === undefined) log.warn("a row cannot be set aside", { source, error: why });
    this.#refusal = why;
  }

  /** Finishes and returns the next rows, by place: 1.2 times the rate of a SELECT and DELETE by ids. */
  #take(count: number): string {
    const next = `SELECT ctid FROM ${this.#from} ${this.#open} ORDER BY id LIMIT ${count} FOR UPDATE SKIP LOCKED`;
    return `${this.#finish(`ctid = ANY(ARRAY(${next}))`)} RETURNING *`;
  }

  get #open(): string {
    return this.#parts.done === "mark" ? "WHERE done_at IS NULL" : "";
  }

  #finish(which: string): string {
    return this.#parts.done === "mark"
      ? `UPDATE ${this.#from} SET done_at = now() WHERE ${which}`
      : `DELETE FROM ${this.#from} WHERE ${which}`;
  }

  #finishStored(rows: readonly Row[], fates: readonly Fate[]): string {
    const stored = rows.filter((_, i) => fates[i] === "stored").map(({ id }) => id);
    return stored.length === 0 ? "" : `${this.#finish(`id IN (${stored.join()})`)}; `;
  }

  /** Returns a statement for each bad row. Only rows that are still there are moved, so that two nodes may do it. */
  #movesOf(rows: readonly Row[], fates: readonly Fate[]): readonly Move[] {
    const still = this.#parts.done === "mark" ? " AND done_at IS NULL" : "";
    return rows.flatMap((row, i) => {
      const fate = fates[i];
      if (fate === undefined || typeof fate === "string") return [];
      const moved = `${this.#finish(`id = ${row.id}`)}${still} RETURNING id, event::text AS event`;
      const reason = `${literal(fate.code)}, ${literal(fate.detail)}`;
      const into = `INSERT INTO ${this.#dead} (id, event, code, reason) SELECT id, event, ${reason} FROM moved`;
      return [{ row, sql: `WITH moved AS (${moved}) ${into}; ` }];
    });
  }
}

/** Ids are bigints as text; those that a double does not tell apart are equally long. `Batch` refuses what is none. */
const byId = ({ id: one }: Columns, { id: other }: Columns): number =>
  Number(one) - Number(other) || ((one ?? "") < (other ?? "") ? -1 : 1);

const isRefusal = (error: unknown): boolean => REFUSAL.test(String((error as { readonly code?: unknown }).code));
