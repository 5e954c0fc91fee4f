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

/** The records that carry a checksum, or are checked against one that does: the labels of `relay_records_damaged_total`. */
export type RecordKind = "event" | "delivery" | "attempts" | "due";
/** `checksum`: the text was changed. `unreadable`: it is no such record, or the storage cannot read it. `misplaced`: it stands under another's key, or contradicts what it points to. `missing`: what points to it is there, it is not. */
export type Damage = "checksum" | "unreadable" | "misplaced" | "missing";

/** One stored record is not as it was written. The storage as a whole is well: only this record is lost. */
export class DamagedRecordError extends Error {
  readonly kind: RecordKind;
  readonly damage: Damage;
  /** Of the record. */
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
};

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
