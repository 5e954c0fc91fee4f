/** Exit codes (sysexits) and the errors that carry one. */
import { StorageError } from "../../core/model/errors.ts";

export { EX_CONFIG } from "../../config/problems.ts";

export const EX_OK = 0;
/** The relay refused what was asked. */
export const EX_REFUSED = 1;
export const EX_USAGE = 64;
/** Data that was read is damaged. */
export const EX_DATAERR = 65;
export const EX_UNAVAILABLE = 69;
export const EX_SOFTWARE = 70;
export const EX_TEMPFAIL = 75;

/** The command ends with a message and this code. */
export class ExitError extends Error {
  readonly exitCode: number;
  constructor(exitCode: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ExitError";
    this.exitCode = exitCode;
  }
}

/** The command line itself is wrong: 64. */
export class UsageError extends ExitError {
  constructor(message: string) {
    super(EX_USAGE, message);
  }
}
export const usage = (message: string): UsageError => new UsageError(message);

/** A storage that fails is no fault of the relay itself: 65 when its data is damaged, else 69. Other errors stay as they are. */
export function withExitCode(error: unknown): unknown {
  if (!(error instanceof StorageError)) return error;
  const code = error.fault === "broken" ? EX_DATAERR : EX_UNAVAILABLE;
  return new ExitError(code, `the storage fails: ${error.message}`, { cause: error });
}
