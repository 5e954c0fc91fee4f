/** Rows as messages, in batches whose rows are done together. */
import type { Backlog, Upstream } from "../messages/intake.ts";
import type { Poison, RawMessage } from "../messages/message.ts";
import { quoted, type Columns, type Connection } from "../../brokers/postgres.ts";

/** Reads the rows of a table in one of two ways. */
export interface Reader {
  /** Checks that the tables are there. @throws Error that says what is missing */
  check(connection: Connection): Promise<void>;
  /** Publishes all rows that can be read now. @throws Error when PostgreSQL or the store fails */
  drain(connection: Connection, signal: AbortSignal): Promise<void>;
  /** Counts the rows that are not done, whatever keeps them from being read. */
  backlog(connection: Connection): Promise<Backlog>;
  /** Closes what `drain` has opened, at the end of each session. */
  end?(): Promise<void>;
  /** Says which row cannot be set aside; `undefined`: none. */
  readiness?(): string | undefined;
}

export interface Row extends RawMessage {
  /** A bigint as text. */
  readonly id: string;
  readonly batch: Batch;
}

export type Fate = "stored" | "returned" | Poison;

/** Most rows that are counted: a table of millions would be read to its end each time. */
const MOST_COUNTED = 100_000;

/** @param which the WHERE and the ORDER BY of rows that wait, as an index has them */
export async function backlogOf(
  connection: Connection,
  table: string,
  which: string,
  values?: readonly string[],
): Promise<Backlog> {
  const waiting = `SELECT id FROM ${quoted(table)} ${which} LIMIT ${MOST_COUNTED}`;
  const [found] = await connection.rows(`SELECT count(*), min(id) AS first FROM (${waiting}) AS waiting`, values);
  return { count: Number(found?.["count"]), first: found?.["first"] ?? undefined };
}

/** Columns that are no headers. */
const OWN = new Set(["id", "event", "tx", "done_at"]);

/** Rows that were read together. */
export class Batch {
  readonly rows: readonly Row[];
  /** Resolves when the transaction of the rows is committed, to the bad ones that were left; set by the reader. */
  readonly done = Promise.withResolvers<readonly Row[]>();
  readonly #fates = new Map<Row, Fate>();
  readonly #settled = Promise.withResolvers<readonly Fate[]>();

  /** @throws Error when the table has no such columns */
  constructor(table: string, found: readonly Columns[]) {
    this.rows = found.map((columns) => rowOf(table, columns, this));
    // A failure reaches those who wait for it; it is not unhandled when nobody does.
    this.done.promise.catch(() => undefined);
  }

  /** Resolves to what became of each row, in their order. */
  get settled(): Promise<readonly Fate[]> {
    return this.#settled.promise;
  }

  settle(row: Row, fate: Fate): void {
    this.#fates.set(row, fate);
    if (this.#fates.size === this.rows.length)
      this.#settled.resolve(this.rows.map((one) => this.#fates.get(one) as Fate));
  }
}

function rowOf(table: string, columns: Columns, batch: Batch): Row {
  const { id, event, created_at: createdAt } = columns;
  if (typeof id !== "string" || !/^-?\d+$/.test(id)) throw new Error(`${table} needs a column id of type bigint`);
  if (event === undefined) throw new Error(`${table} needs a column event of type json, jsonb or text`);
  let headers: Record<string, string> | undefined;
  for (const [name, value] of Object.entries(columns))
    if (value !== null && !OWN.has(name)) (headers ??= {})[name.toLowerCase()] = value;
  const at = typeof createdAt === "string" ? Date.parse(createdAt) : Number.NaN;
  return {
    payload: event ?? "",
    contentType: headers?.["content_type"],
    headers,
    subject: table,
    at: Number.isNaN(at) ? undefined : at,
    place: `${table.replaceAll(".", ":")}-${id}`,
    id,
    batch,
  };
}

/** Resolves when the transactions of the rows are committed. */
async function settleAll(rows: readonly Row[], fate: Fate): Promise<void> {
  for (const row of rows) row.batch.settle(row, fate);
  await Promise.all([...new Set(rows.map(({ batch }) => batch.done.promise))]);
}

export const ROWS: Upstream<Row> = {
  stored: (rows) => settleAll(rows, "stored"),
  giveBack: (rows) => settleAll(rows, "returned"),
  async setAside(row, poison) {
    row.batch.settle(row, poison);
    return !(await row.batch.done.promise).includes(row);
  },
};
