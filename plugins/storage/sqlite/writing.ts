/**
 * Types of the writing connection with its prepared statements, of the questions to its thread, and of the answers.
 *
 * Measured for a batch of 32, half accepts (900-byte event + due line), half ends (250-byte delivery, due line
 * deleted), CPU per commit with 1 / 10 / 100 keys: records in a rowid table and due lines WITHOUT ROWID, 4 KiB pages,
 * 6.7 / 10.6 / 14.4 µs. Losing: one rowid table 7.3 / 11.0 / 14.7; everything WITHOUT ROWID 6.3 / 11.7 / 27.9; 16 KiB
 * pages 6.1 / – / 16.6; 1 KiB 8.7 / – / 16.3; BLOB instead of TEXT +4 %; 8 KiB, REPLACE, mmap, exclusive locking mode:
 * no difference. Texts in an array cross in 0.5 µs a commit on either side; one long text with lengths, or encoded
 * bytes, 0.6. Free pages that can be given back (`auto_vacuum`) and are overwritten when they become free
 * (`secure_delete`): 7.6 µs an event written instead of 7.2, and 6.0 deleted instead of 5.1.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { StorageFault } from "../../../core/model/errors.ts";
import type { CleanUp } from "./clean-up.ts";

export interface Table {
  readonly get: StatementSync;
  readonly put: StatementSync;
  readonly del: StatementSync;
  /** Puts where the key is absent. */
  readonly add: StatementSync;
  /** Deletes where the value is a text. */
  readonly drop: StatementSync;
}
/** The database while it is open. */
export interface Open {
  readonly db: DatabaseSync;
  readonly begin: StatementSync;
  readonly commit: StatementSync;
  readonly record: Table;
  readonly line: Table;
  readonly cleanUp: CleanUp;
}

export interface WorkerStart {
  readonly path: string;
  readonly cacheKiB: number;
}

/**
 * A batch, as two flat lists: texts in an array cross to another thread for half of what objects cost. `codes` has, for each commit, the number of its changes, then one code per change: the operation (put 1,
 * delete 2, check 3) + 4 × its condition (none 0, must be absent 1, must be a text 2). `texts` has the key, the value
 * of a put, and the text of a condition.
 */
export interface WorkerBatch {
  readonly codes: readonly number[];
  readonly texts: readonly string[];
}

export type WorkerRequest = WorkerBatch | "close";
export type WorkerAnswer =
  | { readonly opened: true }
  /** The start is refused: the file is not ours, or of a newer version. */
  | { readonly refused: string }
  /** The batch is durable, except these commits, whose conditions on these keys did not hold. */
  | { readonly done: readonly (readonly [commit: number, keys: readonly string[]])[] | undefined }
  | { readonly fault: StorageFault; readonly message: string }
  | { readonly closed: true };
