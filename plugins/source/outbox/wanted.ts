/** The options of an outbox, and what they ask for. */
import type { MessageOptions } from "../messages/message.ts";
import {
  deadBeside,
  PRESETS,
  tableName,
  type OutboxColumns,
  type ReadMode,
  type TableName,
  type Wanted,
} from "./layout.ts";

export interface OutboxOptions extends MessageOptions {
  /** The table or view, where need be with its schema: `shop.outbox`. Other names stand in quotes: `"Shop"."order events"`. @default "outbox" */
  readonly table?: string;
  /** Which column holds what, or `debezium` for its outbox table (https://debezium.io). */
  readonly columns?: OutboxColumns | keyof typeof PRESETS;
  /** Deletes a row whose events are stored; `mark` marks it in its column `done_at`. @default "delete" */
  readonly done?: "delete" | "mark";
  /** Takes rows without a valid event. Where it is not there, they are held. @default the table's name and `_dead` */
  readonly dead?: string;
  /** Most rows that were read and are not done. @default 2_000 */
  readonly maxInFlight?: number;
}

/** @param options checked by the factory's rules */
export function wantedOf(options: OutboxOptions, mode: ReadMode): Wanted {
  const table = tableName(options.table ?? "outbox") as TableName;
  return {
    table,
    mode,
    columns: columnsOf(options.columns),
    dead: options.dead === undefined ? deadBeside(table) : (tableName(options.dead) as TableName),
    needsDead: options.dead !== undefined,
  };
}

export const columnsOf = (given: OutboxOptions["columns"]): OutboxColumns =>
  typeof given === "string" ? PRESETS[given] : (given ?? {});
