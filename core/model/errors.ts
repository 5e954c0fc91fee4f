/** Errors of our own: faults of the relay, or refusals by a port. What a receiver does is a `Reply`, never an error. */
import type { AttemptError } from "./attempt.ts";
import type { FieldError } from "./problem.ts";

/** A condition of a commit did not hold. Nothing was changed. */
export class ConflictError extends Error {
  readonly keys: readonly string[];
  constructor(keys: readonly string[]) {
    super(`commit refused: ${keys.length} key(s) are not as expected`);
    this.name = "ConflictError";
    this.keys = keys;
  }
}

/**
 * Repeats `step` while its commit is refused.
 * @param tries by default more than changes of one key can race at once
 * @throws ConflictError when the races do not end
 */
export async function untilCommitted<T>(step: () => Promise<T>, tries = 64): Promise<T> {
  for (let left = tries; ; left--) {
    try {
      return await step();
    } catch (error) {
      if (!(error instanceof ConflictError) || left <= 1) throw error;
    }
  }
}

/**
 * `unavailable`: the storage cannot answer now. `full`: no space. `uncertain`: a commit may or may not have happened.
 * `broken`: stored data cannot be read.
 */
export type StorageFault = "unavailable" | "full" | "uncertain" | "broken";

export class StorageError extends Error {
  readonly fault: StorageFault;
  constructor(fault: StorageFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "StorageError";
    this.fault = fault;
  }
}

/** Records whose damage is found and counted: the labels of `relay_records_damaged_total`. */
export type RecordKind = "event" | "delivery" | "attempts" | "due" | "subscription";
/**
 * `checksum`: the text was changed. `unreadable`: it is no such record, or the storage cannot read it. `misplaced`: it
 * is another key's record, or contradicts the record that it points to. `missing`: another record points to it, but it
 * does not exist. `sealed`: a sealed text in it cannot be opened.
 */
export type Damage = "checksum" | "unreadable" | "misplaced" | "missing" | "sealed";

/** One stored record has changed since it was written. Only this record is lost; the storage works. */
export class DamagedRecordError extends Error {
  readonly kind: RecordKind;
  readonly damage: Damage;
  readonly key: string;
  constructor(kind: RecordKind, damage: Damage, key: string, options?: ErrorOptions) {
    super(SAID[damage], options);
    this.name = "DamagedRecordError";
    this.kind = kind;
    this.damage = damage;
    this.key = key;
  }
}

const SAID: Readonly<Record<Damage, string>> = {
  checksum: "is damaged: its checksum is wrong",
  unreadable: "cannot be read",
  misplaced: "stands under the key of another record, or contradicts the record that it points to",
  missing: "is not there, but another record points to it",
  sealed: "holds a sealed text that the relay's keys do not open",
};

/** The lease is no longer the newest: another holder took over, or the subscription was cancelled. */
export class LeaseLostError extends Error {
  constructor(message = "the lease was lost") {
    super(message);
    this.name = "LeaseLostError";
  }
}

/** A guarded connection failed at `stage`. `reason` is set for `guard`: the rule that refused. */
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

/** The operator's egress proxy does not answer, or refuses the relay itself: a fault of no target. */
export class ProxyError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ProxyError";
  }
}

/** The relay cannot start or continue with this configuration. `exitCode` follows sysexits: 64, 69, 75, 78. */
export class StartError extends Error {
  readonly exitCode: number;
  constructor(exitCode: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "StartError";
    this.exitCode = exitCode;
  }
}

/** @throws StartError 78 that names every problem of a plug-in's options, when there is one */
export function refuseOptions(problems: readonly FieldError[]): void {
  if (problems.length === 0) return;
  throw new StartError(78, problems.map(({ path, message }) => `${path} ${message}`.trim()).join("; "));
}
