/** What the writer's thread is asked, and what it answers: types only. */
import type { StorageFault } from "../../../core/model/errors.ts";

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
