/** Errors are our faults, or a refusal by one of our own ports. What the far side does is a `Reply`, never an error. */
import type { AttemptError } from "./attempt.ts";

/** A conditional change of a commit did not hold. Nothing was changed. */
export class ConflictError extends Error {
  readonly keys: readonly string[];
  constructor(keys: readonly string[]) {
    super(`commit refused: ${keys.length} key(s) are not as expected`);
    this.name = "ConflictError";
    this.keys = keys;
  }
}

/** `unavailable`: it cannot answer now. `full`: no space. `uncertain`: a commit may or may not have happened. `broken`: what is stored cannot be read. */
export type StorageFault = "unavailable" | "full" | "uncertain" | "broken";

export class StorageError extends Error {
  readonly fault: StorageFault;
  constructor(fault: StorageFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "StorageError";
    this.fault = fault;
  }
}

/** The lease is no longer the newest: another holder took over, or the subscription was cancelled. */
export class LeaseLostError extends Error {
  constructor(message = "the lease was lost") {
    super(message);
    this.name = "LeaseLostError";
  }
}

/** A guarded connection failed; `stage` says where. `reason` is set for `guard`: the rule that refused. */
export class ConnectError extends Error {
  readonly stage: AttemptError;
  readonly reason: string | undefined;
  constructor(stage: AttemptError, message: string, reason?: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ConnectError";
    this.stage = stage;
    this.reason = reason;
  }
}

/** The relay cannot start or go on as it is configured. `exitCode` follows sysexits: 64, 69, 75, 78. */
export class StartError extends Error {
  readonly exitCode: number;
  constructor(exitCode: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "StartError";
    this.exitCode = exitCode;
  }
}
