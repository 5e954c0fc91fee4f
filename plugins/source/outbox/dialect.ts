/** What a database says in its own SQL: all else of an outbox is the same in each. */
import type { Connection } from "../../brokers/sql/connection.ts";
import type { Poison } from "../messages/message.ts";
import type { Layout, Shape, Wanted } from "./layout.ts";

export interface Dialect {
  /** Quotes a name. */
  name(text: string): string;
  /** Describes the table; `undefined`: there is none. */
  shape(connection: Connection, wanted: Wanted): Promise<Shape | undefined>;
  /** Writes an id. */
  id(layout: Layout, id: string): string;
  /** True of the time at which a row is done, or of a flag. */
  readonly now: string;
  /** The SQL of a flag that is not set. */
  isOpen(flag: string): string;
  /** True where one transaction may finish rows while another one does. */
  readonly hasPairs: boolean;
  /** Most ids of one statement. */
  readonly mostIds: number;
  /** The statement that finishes rows. @param mark what marks them; `undefined`: they are deleted */
  finish(layout: Partial<Layout>, from: string, mark: string | undefined, which: string): string;
  /** The statement that locks the next rows and returns them, in order. It may finish them, for a transaction that is open. */
  take(layout: Layout, sql: TakeSql): string;
  /** True when `take` finishes the rows. */
  readonly takeFinishes: boolean;
  /** The statements that move a bad row to the dead table, if it is still there: two nodes may do it at once. */
  move(layout: Layout, sql: MoveSql): readonly string[];
  /** True of an error that speaks of the statement, and not of the server or the way to it. */
  isRefusal(error: unknown): boolean;
}

export interface TakeSql {
  readonly from: string;
  /** ` WHERE …` of the rows that are open, or nothing. */
  readonly open: string;
  readonly order: string;
  readonly count: number;
  finish(which: string): string;
}

interface MoveSql extends Pick<TakeSql, "from" | "finish"> {
  readonly dead: string;
  /** The condition of the one row, while it is open. */
  readonly which: string;
  readonly poison: Poison;
}
