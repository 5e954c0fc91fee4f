/** Rows as messages, in batches whose rows are done together. */
import type { Fate, RawMessage, Settled } from "../messages/message.ts";
import type { Columns } from "../../brokers/postgres.ts";

export interface Row extends RawMessage {
  /** A bigint as text. */
  readonly id: string;
  readonly batch: Batch;
}

/** Rows that were read together. */
export interface Batch {
  readonly rows: readonly Row[];
  /** Resolves to what became of each row, in their order. */
  readonly settled: Promise<readonly Fate[]>;
  settle(row: Row, fate: Fate): void;
  /** Resolves when the transaction of the rows is committed, to the bad ones that were left; set by the reader. */
  readonly done: PromiseWithResolvers<readonly Row[]>;
}

/** Columns that are no headers. */
const OWN = new Set(["id", "event", "tx", "done_at"]);

/** @throws Error when the table has no such columns */
export function batchOf(table: string, found: readonly Columns[]): Batch {
  const fates = new Map<Row, Fate>();
  const settled = Promise.withResolvers<readonly Fate[]>();
  const done = Promise.withResolvers<readonly Row[]>();
  // A failure reaches those who wait for it; it is not unhandled when nobody does.
  done.promise.catch(() => undefined);
  const rows: Row[] = [];
  const batch: Batch = {
    rows,
    settled: settled.promise,
    settle(row, fate) {
      fates.set(row, fate);
      if (fates.size === rows.length) settled.resolve(rows.map((one) => fates.get(one) as Fate));
    },
    done,
  };
  for (const columns of found) rows.push(rowOf(table, columns, batch));
  return batch;
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

/** Tells the batches what became of their rows. Resolves when their transactions are committed, to the bad rows that were left. */
export async function settleRows(settled: readonly Settled<Row>[]): Promise<readonly Row[]> {
  const batches = new Set<Batch>();
  for (const { message, fate } of settled) {
    message.batch.settle(message, fate);
    batches.add(message.batch);
  }
  return (await Promise.all([...batches].map(({ done }) => done.promise))).flat();
}
