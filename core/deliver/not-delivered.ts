/** How an attempt tells p-retry's loop that another one is to follow. It never leaves the delivery. */
import { ConflictError, LeaseLostError } from "../model/errors.ts";

/** "Not delivered, and here is when it is due again". */
export class NotDelivered extends Error {
  readonly at: number;
  readonly held: boolean;
  constructor(at: number, held: boolean) {
    super("not delivered");
    this.at = at;
    this.held = held;
  }
}

/** Not held: it went back to the queue with its time. Lost, or its line changed: another holder goes on, or nobody may. */
export const isQuiet = (error: unknown): boolean =>
  error instanceof NotDelivered || error instanceof LeaseLostError || error instanceof ConflictError;
