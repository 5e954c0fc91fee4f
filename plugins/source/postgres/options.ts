/** The options of `fromPostgres()`. */
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { MessageOptions } from "../messages/message.ts";

export interface PostgresOptions extends MessageOptions {
  /** `postgres://user:password@host:port/database`. */
  readonly url: SecretOption;
  /** The table, with its schema where it is not in the search path: `shop.outbox`. @default "outbox" */
  readonly table?: string;
  /**
   * What becomes of a row whose events are stored: it is deleted, or `mark` sets its column `done_at`.
   * @default "delete"
   */
  readonly done?: "delete" | "mark";
  /** Reads the table in the order of its columns `tx` and `id`, and writes nothing to it. @default false */
  readonly cursor?: boolean;
  /** The channel that NOTIFY wakes this source on. @default the table's name without its schema */
  readonly channel?: string;
  /** How often the table is read without a NOTIFY, ms. @default 1_000 */
  readonly pollMs?: number;
  /** Most rows that were read and are not done. @default 2_000 */
  readonly maxInFlight?: number;
}
