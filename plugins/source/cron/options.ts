/** The options of `cron()`. */
import type { MappedEvent } from "../messages/message.ts";

interface CronEvent extends MappedEvent {
  readonly type: string;
  readonly keyId: string;
}

export interface CronOptions {
  /** Cron expression, UTC, of five fields, or of six with seconds first. */
  readonly schedule: string;
  /**
   * The event, or a function of the time of the tick that returns it; `undefined`: none this time. On several nodes each
   * calls it, and the first event counts.
   */
  readonly event: CronEvent | ((at: Date) => CronEvent | undefined);
  /**
   * Stands in metrics, the log and `/readyz`, and begins the ids of the events. Two schedules need two names. Up to 32
   * letters, digits and `-`.
   * @default "cron"
   */
  readonly name?: string;
}
