/** Errors as plain data, so that they keep their class when they cross to another thread. */
import { ConflictError, DamagedRecordError, LeaseLostError, StartError, StorageError } from "../../model/errors.ts";

export interface PlainError {
  readonly name: string;
  readonly message: string;
  /** What the constructor of this class takes beside the message. */
  readonly details?: readonly unknown[];
  readonly stack?: string | undefined;
}

export function plainError(error: unknown): PlainError {
  if (error instanceof ConflictError) return { name: "ConflictError", message: "", details: [error.keys] };
  if (error instanceof LeaseLostError) return { name: "LeaseLostError", message: error.message };
  if (error instanceof StorageError) {
    return { name: "StorageError", message: error.message, details: [error.fault], stack: error.stack };
  }
  if (error instanceof DamagedRecordError) {
    return { name: "DamagedRecordError", message: error.message, details: [error.kind, error.damage, error.key] };
  }
  if (error instanceof StartError) {
    return { name: "StartError", message: error.message, details: [error.exitCode], stack: error.stack };
  }
  if (error instanceof Error) return { name: error.name, message: error.message, stack: error.stack };
  return { name: "Error", message: String(error) };
}

export function plainToError({ name, message, details = [], stack }: PlainError): Error {
  const error = made(name, message, details);
  if (stack !== undefined) error.stack = stack;
  return error;
}

function made(name: string, message: string, details: readonly unknown[]): Error {
  switch (name) {
    case "ConflictError":
      return new ConflictError(details[0] as readonly string[]);
    case "LeaseLostError":
      return new LeaseLostError(message);
    case "StorageError":
      return new StorageError(details[0] as StorageError["fault"], message);
    case "DamagedRecordError":
      return new DamagedRecordError(...(details as [DamagedRecordError["kind"], DamagedRecordError["damage"], string]));
    case "StartError":
      return new StartError(details[0] as number, message);
    default: {
      const error = new Error(message);
      error.name = name;
      return error;
    }
  }
}
