/** The errors of the client: the relay refused a request, or there was no answer of a relay. */
import type { ProblemCode } from "./generated.ts";

/** What is wrong with one field of a request. */
export interface FieldProblem {
  /** `events[0]`; empty for the body as a whole. */
  readonly path: string;
  readonly message: string;
  readonly reason?: string;
}

/** The relay refused a request (RFC 9457). Nothing was done by it, unless `status` is 500 or above. */
export class RelayProblem extends Error {
  readonly status: number;
  /** Names the problem; a newer relay may know more codes. Undefined where something in front of the relay answered. */
  readonly code: ProblemCode | (string & {}) | undefined;
  readonly title: string;
  /** What to do about it. */
  readonly detail: string | undefined;
  readonly errors: readonly FieldProblem[];
  /** Whole seconds after which it may be tried again. */
  readonly retryAfter: number | undefined;
  /** The id of the request, as the relay's log has it. */
  readonly instance: string | undefined;

  /** @param body of the answer, whatever it is */
  constructor(status: number, body: unknown, retryAfter: string | null) {
    const { title, detail, code, errors, instance } = mapOf(body);
    const head = textOf(title) ?? "the relay refused";
    const named = `${status}${textOf(code) === undefined ? "" : ` ${textOf(code)}`}`;
    super(`${head} (${named})${textOf(detail) === undefined ? "" : `: ${textOf(detail)}`}`);
    this.name = "RelayProblem";
    this.status = status;
    this.code = textOf(code);
    this.title = head;
    this.detail = textOf(detail);
    this.errors = (Array.isArray(errors) ? errors : []).map(fieldOf);
    this.retryAfter = retryAfter !== null && /^\d{1,9}$/.test(retryAfter) ? Number(retryAfter) : undefined;
    this.instance = textOf(instance);
  }
}

/** Nobody answered, or not in time. What was asked may have been done all the same. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
}

/** Somebody answered, but not as a relay does. */
export class ForeignAnswer extends Error {
  override readonly name = "ForeignAnswer";
}

const mapOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? { ...value } : {};
const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

function fieldOf(value: unknown): FieldProblem {
  const { path, message, reason } = mapOf(value);
  return {
    path: textOf(path) ?? "",
    message: textOf(message) ?? "",
    ...(textOf(reason) && { reason: textOf(reason) }),
  };
}
