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
    const { title = "the relay refused", detail, code, instance } = textsOf(body);
    super(`${title} (${status}${code === undefined ? "" : ` ${code}`})${detail === undefined ? "" : `: ${detail}`}`);
    this.name = "RelayProblem";
    this.status = status;
    this.code = code;
    this.title = title;
    this.detail = detail;
    this.instance = instance;
    const { errors } = Object(body) as { readonly errors?: unknown };
    const fields = (Array.isArray(errors) ? errors : []).map(textsOf);
    this.errors = fields.map(({ path = "", message = "", ...more }) => ({ path, message, ...more }));
    this.retryAfter = /^\d{1,9}$/.test(retryAfter ?? "") ? Number(retryAfter) : undefined;
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

/** Returns the fields that are text. */
const textsOf = (value: unknown): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries(Object.entries(Object(value) as object).filter(([, one]) => typeof one === "string"));
