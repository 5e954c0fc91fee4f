/** Tells p-retry's loop that another attempt follows. This error never leaves the delivery. */
import { ConflictError, LeaseLostError } from "../model/errors.ts";

/** Not delivered, with the time at which the delivery is due again. */
export class NotDelivered extends Error {
  readonly at: number;
  readonly held: boolean;
  constructor(at: number, held: boolean) {
    super("not delivered");
    this.at = at;
    this.held = held;
  }
}

/**
 * True for errors that need no report: the wait is not held, so the delivery went back to the queue; or the lease was
 * lost or its line changed, so another holder continues, or nobody may.
 */
export const isExpectedEnd = (error: unknown): boolean =>
  error instanceof NotDelivered || error instanceof LeaseLostError || error instanceof ConflictError;
