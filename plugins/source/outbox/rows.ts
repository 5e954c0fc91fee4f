/** Rows as messages, in batches whose rows are done together. */
import type { Columns, Connection } from "../../brokers/sql/connection.ts";
import type { Backlog, Upstream } from "../messages/intake.ts";
import type { Poison, RawMessage } from "../messages/message.ts";
import type { Layout } from "./layout.ts";

/** Reads the rows of a table in one of two ways. */
export interface Reader {
  /** Checks that the tables are there. @throws Error that says what is missing */
  check(connection: Connection): Promise<void>;
  /** Publishes all rows that can be read now. @throws Error when the database or the store fails */
  drain(connection: Connection, signal: AbortSignal): Promise<void>;
  /** Counts the rows that are not done, whatever keeps them from being read. */
  backlog(connection: Connection): Promise<Backlog>;
  /** Closes what `drain` has opened, at the end of each session. */
  end?(): Promise<void>;
  /** Says which row cannot be set aside; `undefined`: none. */
  readiness?(): string | undefined;
}

export interface Row extends RawMessage {
  /** As the database writes it. */
  readonly id: string;
  readonly batch: Batch;
}

export type Fate = "stored" | "returned" | Poison;

/** Most rows that are counted: a table of millions would be read to its end each time. */
const MOST_COUNTED = 100_000;

/**
 * @param from the quoted name of the table
 * @param id the quoted name of its ids
 * @param which the WHERE and the ORDER BY of rows that wait, as an index has them
 */
export async function backlogOf(
  connection: Connection,
  [from, id, which]: readonly [from: string, id: string, which: string],
  values?: readonly string[],
): Promise<Backlog> {
  const waiting = `SELECT ${id} FROM ${from} ${which} LIMIT`;
  const [found] = await connection.rows(
    `SELECT count(*) AS waits, (${waiting} 1) AS first FROM (${waiting} ${MOST_COUNTED}) AS waiting`,
    values,
  );
  return { count: Number(found?.["waits"]), first: found?.["first"] ?? undefined };
}

/** Rows that were read together. */
export class Batch {
  readonly rows: readonly Row[];
  /** Resolves when the transaction of the rows is committed, to the bad ones that were left; set by the reader. */
  readonly done = Promise.withResolvers<readonly Row[]>();
  readonly #fates = new Map<Row, Fate>();
  readonly #settled = Promise.withResolvers<readonly Fate[]>();

  /** @throws Error when a row has no id */
  constructor(layout: Layout, found: readonly Columns[]) {
    const own = new Set([layout.id, layout.body, layout.tx, layout.done]);
    this.rows = found.map((columns) => rowOf(layout, own, columns, this));
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

/** @param own columns that are no headers */
function rowOf(layout: Layout, own: ReadonlySet<string>, columns: Columns, batch: Batch): Row {
  const { label } = layout.table;
  const id = columns[layout.id];
  if (typeof id !== "string" || (layout.idKind === "number" && !/^-?\d+$/.test(id)))
    throw new Error(`${label} has a row whose ${layout.id} is ${id ?? "NULL"}: it needs one that tells it from others`);
  let headers: Record<string, string> | undefined;
  for (const [name, value] of Object.entries(columns))
    if (value !== null && !own.has(name)) (headers ??= {})[name.toLowerCase()] = value;
  const body = columns[layout.body] ?? "";
  const createdAt = layout.created === undefined ? undefined : columns[layout.created];
  const at = typeof createdAt === "string" ? timeOf(createdAt) : Number.NaN;
  return {
    payload: layout.bodyKind === "binary" ? Buffer.from(body.slice(2), "hex") : body,
    contentType: headers?.["content_type"],
    headers,
    subject: label,
    at: Number.isNaN(at) ? undefined : at,
    place: `${label.replaceAll(".", ":")}-${layout.idKind === "binary" ? id.slice(2) : id}`,
    id,
    batch,
  };
}

/** A time without its zone is one of UTC. */
const timeOf = (text: string): number =>
  Date.parse(/(?:[+-]\d\d(?::?\d\d)*|Z)$/.test(text.slice(10)) ? text : `${text}Z`);

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
