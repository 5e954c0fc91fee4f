/** The Problem that some work ends in, to be looked at; anything else fails the test. */
import { expect } from "vitest";
import { Problem, type FieldError, type ProblemCode } from "../../core/model/problem.ts";

export interface Refused {
  readonly code: ProblemCode;
  readonly errors: readonly FieldError[];
  readonly paths: readonly string[];
  readonly retryAfter: number | undefined;
  readonly problem: Problem;
}

export async function refusal(work: Promise<unknown>): Promise<Refused> {
  const error = await work.then(
    (value) => new Error(`resolved to ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  if (!(error instanceof Problem)) expect.fail(`no Problem, but ${String(error)}`);
  const errors = error.extras.errors ?? [];
  const paths = errors.map(({ path }) => path);
  return { code: error.code, errors, paths, retryAfter: error.extras.retryAfter, problem: error };
}
