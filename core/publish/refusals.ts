/** Counts publications that are refused, by code: also those whose body was never read. */
import { StorageError } from "../model/errors.ts";
import { Problem } from "../model/problem.ts";
import type { Metrics } from "../ports/plugin.ts";
import { storageProblem } from "../records/commit-once.ts";

interface Refusals {
  /** Counts a refusal. @returns what to throw */
  of(error: unknown): unknown;
  /** Makes a call that counts what it refuses. */
  counting<T>(call: () => T): () => T;
}

export function createRefusals(metrics: Pick<Metrics, "count">): Refusals {
  function of(error: unknown): unknown {
    const problem = error instanceof StorageError ? storageProblem(error) : error;
    // What is no Problem is a fault of the relay, and the API answers it so.
    metrics.count("publish_refused", { code: problem instanceof Problem ? problem.code : "INTERNAL_ERROR" });
    return problem;
  }
  return {
    of,
    counting: (call) => () => {
      try {
        return call();
      } catch (error) {
        throw of(error);
      }
    },
  };
}
