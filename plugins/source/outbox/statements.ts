/** The statements of an outbox, in the SQL of a dialect. */
import type { Poison } from "../messages/message.ts";
import type { Dialect, TakeSql } from "./dialect.ts";
import type { Layout, TableName } from "./layout.ts";
import type { Fate, Row } from "./rows.ts";

export const quoted = (dialect: Pick<Dialect, "name">, { parts }: TableName): string =>
  parts.map((part) => dialect.name(part)).join(".");

export type Statements = ReturnType<typeof createStatements>;

export function createStatements(dialect: Dialect, layout: Layout) {
  const from = quoted(dialect, layout.table);
  const id = dialect.name(layout.id);
  const done = dialect.name(layout.done);
  const isMarked = layout.mode === "mark";
  const isOpen = layout.doneKind === "flag" ? dialect.isOpen(done) : `${done} IS NULL`;
  const order = layout.order.map((name) => dialect.name(name)).join(", ");
  const mark = isMarked ? `${done} = ${layout.doneKind === "flag" ? "true" : dialect.now}` : undefined;
  const finish: TakeSql["finish"] = (which) => dialect.finish(layout, from, mark, which);
  const among = (ids: readonly string[]): string => `(${ids.map((one) => dialect.id(layout, one)).join()})`;
  const where = (conditions: readonly string[]): string =>
    conditions.length === 0 ? "" : ` WHERE ${conditions.join(" AND ")}`;

  /** Finishes rows that are stored; nothing where there are none. */
  const finishStored = (rows: readonly Row[], fates?: readonly Fate[]): readonly string[] => {
    const ids = rows.filter((_, i) => fates === undefined || fates[i] === "stored").map((row) => row.id);
    const lists = Array.from({ length: Math.ceil(ids.length / dialect.mostIds) }, (_, i) => i * dialect.mostIds);
    return lists.map((at) => finish(`${id} IN ${among(ids.slice(at, at + dialect.mostIds))}`));
  };
  return {
    /** @param held ids of rows that are left out */
    take(count: number, held: Iterable<string>): string {
      const ids = [...held];
      const open = where([...(isMarked ? [isOpen] : []), ...(ids.length > 0 ? [`${id} NOT IN ${among(ids)}`] : [])]);
      return dialect.take(layout, { from, open, order, count, finish });
    },
    finishStored,
    /** Ends the transaction of `take` whose rows are all stored. */
    keep: (rows: readonly Row[]): readonly string[] => [...(dialect.takeFinishes ? [] : finishStored(rows)), "COMMIT"],
    move(row: Row, poison: Poison): readonly string[] {
      const dead = quoted(dialect, layout.dead as TableName);
      const which = `${id} = ${dialect.id(layout, row.id)}${isMarked ? ` AND ${isOpen}` : ""}`;
      return dialect.move(layout, { from, dead, which, finish, poison });
    },
    waiting: [from, id, `${where(isMarked ? [isOpen] : [])} ORDER BY ${order}`] as const,
  };
}
