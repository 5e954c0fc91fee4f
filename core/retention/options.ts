/** How long ended events are kept. */

export interface RetentionOptions {
  /** Age at which delivered, cancelled and unmatched events go, ms. `undefined`: never. */
  readonly deliveredAfterMs?: number;
  readonly failedAfterMs?: number;
}
