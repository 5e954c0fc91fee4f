/** The writing connection with its prepared statements: types only, since the thread is started from its text. */
import type { DatabaseSync, StatementSync } from "node:sqlite";

/** The statements of one table. */
export interface Table {
  readonly get: StatementSync;
  readonly put: StatementSync;
  readonly del: StatementSync;
}
/** The database while it is open. */
export interface Open {
  readonly db: DatabaseSync;
  readonly begin: StatementSync;
  readonly commit: StatementSync;
  readonly record: Table;
  readonly line: Table;
}
