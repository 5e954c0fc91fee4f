/**
 * Reads an outbox: rows are locked by the statement that reads them, and finished in that transaction once their events are
 * stored. Until then nobody else misses them.
 */
import { MAX_BATCH_EVENTS } from "../../../core/model/event.ts";
import { within } from "../../../core/lib/within.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import type { Intake } from "../messages/intake.ts";
import type { Poison } from "../messages/message.ts";
import { causeOf } from "../../../core/lib/reason.ts";
import type { Connection, OpenConnection } from "../../brokers/sql/connection.ts";
import type { Dialect } from "./dialect.ts";
import { fit, type Fit, type Layout, type Wanted } from "./layout.ts";
import { Batch, backlogOf, type Fate, type Reader, type Row } from "./rows.ts";
import { createStatements, type Statements } from "./statements.ts";

interface OutboxParts {
  readonly intake: Pick<Intake<Row>, "room" | "offer">;
  readonly connect: OpenConnection;
  readonly dialect: Dialect;
  readonly wanted: Wanted;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
  readonly source: string;
}

/** Rows of one transaction: as many as are stored together. */
const PAGE = MAX_BATCH_EVENTS;
/** Longest that a transaction stays open, ms: an open one keeps the server from tidying its tables. */
const OPEN_MS = 30_000;
/** Rows that are held are read again so often, ms, and more rarely when they are many: each costs some. */
const [HELD_MS, HELD_ROW_MS] = [1_000, 5];
/** Most rows that are held and passed by. Beyond that, each page begins with the same ones. */
const MOST_HELD = 10_000;

/** A bad row, and why. */
interface Bad {
  readonly row: Row;
  readonly poison: Poison;
}

/** @throws Error that says all that does not fit */
export async function fitted(connection: Connection, dialect: Dialect, wanted: Wanted): Promise<Fit> {
  const shape = await dialect.shape(connection, wanted);
  if (shape === undefined) throw new Error(`there is no table ${wanted.table.label}`);
  const found = fit(wanted, shape);
  if (found.faults.length > 0) throw new Error(found.faults.join("; "));
  return found;
}

export class OutboxReader implements Reader {
  readonly #parts: OutboxParts;
  #layout: Layout | undefined;
  #sql: Statements | undefined;
  /** A connection for a second transaction, and the work on it. */
  #spare: Connection | undefined;
  #helping: Promise<void> | undefined;
  /** Why rows are held that were read since they were last tried again, by their ids; and those of the time before. */
  #held = new Map<string, string>();
  #before: ReadonlyMap<string, string> = new Map();
  #tryAt = -Infinity;

  constructor(parts: OutboxParts) {
    this.#parts = parts;
  }

  async check(connection: Connection): Promise<void> {
    const { dialect, wanted } = this.#parts;
    const { layout } = await fitted(connection, dialect, wanted);
    this.#layout = layout;
    this.#sql = createStatements(dialect, layout);
    this.#tryAt = -Infinity;
  }

  async drain(connection: Connection, signal: AbortSignal): Promise<void> {
    const now = this.#parts.clock.monotonic();
    const tries = now >= this.#tryAt;
    if (tries) {
      this.#tryAt = now + Math.max(HELD_MS, this.#held.size * HELD_ROW_MS);
      [this.#before, this.#held] = [this.#held, new Map<string, string>()];
    }
    while (!signal.aborted && (await this.#page(connection)))
      if (this.#parts.dialect.hasPairs) this.#helping ??= this.#help(signal).finally(() => (this.#helping = undefined));
    // All rows were read: what was held and is not any more has been mended.
    if (tries) this.#before = new Map();
  }

  backlog(connection: Connection) {
    return backlogOf(connection, this.#statements.waiting);
  }

  async end(): Promise<void> {
    await this.#helping;
    await this.#spare?.close();
    this.#spare = undefined;
  }

  readiness(): string | undefined {
    const held = this.#held.size > 0 ? this.#held : this.#before;
    const [why] = held.values();
    return held.size > 1 ? `${why} (and ${held.size - 1} more)` : why;
  }

  get #statements(): Statements {
    if (this.#sql === undefined) throw new Error("the table was not looked at yet");
    return this.#sql;
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
    const { intake } = this.#parts;
    const count = Math.min(PAGE, await intake.room());
    if (count === 0) return false;
    const found = await connection.run(["BEGIN", this.#statements.take(count, this.#held.keys())]);
    if (found.length === 0) {
      await connection.run(["ROLLBACK"]);
      return false;
    }
    const batch = new Batch(this.#layout as Layout, found);
    intake.offer(batch.rows);
    let left: readonly Row[];
    try {
      left = await this.#publish(connection, batch);
      batch.done.resolve(left);
    } catch (error) {
      // The rows are stored or not; the database unlocks them, and they are read again.
      await batch.settled;
      batch.done.reject(error);
      throw error;
    }
    return found.length === count && (left.length < count || this.#held.size < MOST_HELD);
  }

  /** Resolves to the rows that were left where they are. */
  async #publish(connection: Connection, { rows, settled }: Batch): Promise<readonly Row[]> {
    const sql = this.#statements;
    const waits = !(await within(this.#parts.clock, OPEN_MS, settled));
    if (waits) await connection.run(["ROLLBACK"]);
    const fates = await settled;
    if (!waits && fates.every((fate) => fate === "stored")) {
      await connection.run(sql.keep(rows));
      return [];
    }
    // All rows are there again, and each goes where it belongs.
    if (!waits) await connection.run(["ROLLBACK"]);
    const stored = sql.finishStored(rows, fates);
    const bad = badOf(rows, fates);
    if ((this.#layout as Layout).dead === undefined) {
      await connection.run(stored);
      for (const one of bad) this.#hold(one, undefined);
      return bad.map(({ row }) => row);
    }
    const moves = bad.flatMap(({ row, poison }) => sql.move(row, poison));
    try {
      await connection.run(["BEGIN", ...stored, ...moves, "COMMIT"]);
      return [];
    } catch (error) {
      if (moves.length === 0 || !this.#parts.dialect.isRefusal(error)) throw error;
    }
    await connection.run(["ROLLBACK", ...stored]);
    return this.#moveApart(connection, bad);
  }

  /** Moves each row by itself: one that the dead table refuses stays, is read again, and holds up no other. */
  async #moveApart(connection: Connection, bad: readonly Bad[]): Promise<readonly Row[]> {
    const left: Row[] = [];
    for (const one of bad) {
      try {
        await connection.run(["BEGIN", ...this.#statements.move(one.row, one.poison), "COMMIT"]);
      } catch (error) {
        if (!this.#parts.dialect.isRefusal(error)) throw error;
        await connection.run(["ROLLBACK"]);
        left.push(one.row);
        this.#hold(one, causeOf(error));
      }
    }
    return left;
  }

  /** @param refusal why the dead table does not take it; `undefined`: there is no such table */
  #hold({ row, poison }: Bad, refusal: string | undefined): void {
    const { log, source, wanted } = this.#parts;
    const todo = `correct it, or make the table ${wanted.dead.label}`;
    const why =
      refusal === undefined
        ? `row ${row.id} of ${wanted.table.label} is held: ${poison.code} ${poison.detail} (${todo})`
        : `a row cannot be moved to ${wanted.dead.label}: ${refusal}`;
    if (this.#held.size + this.#before.size === 0) log.warn("a row cannot be set aside", { source, error: why });
    if (this.#held.size < MOST_HELD) this.#held.set(row.id, why);
  }
}

const badOf = (rows: readonly Row[], fates: readonly Fate[]): readonly Bad[] =>
  rows.flatMap((row, i) => {
    const poison = fates[i];
    return poison === undefined || typeof poison === "string" ? [] : [{ row, poison }];
  });
