/** The options of retention: how long ended events are kept. */

export interface RetentionOptions {
  /** Age at which delivered, cancelled and unmatched events are deleted, ms. `undefined`: never. */
  readonly deliveredAfterMs?: number;
  readonly failedAfterMs?: number;
}
