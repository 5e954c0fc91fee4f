/** Checks the options of `https()` that no file and no secret belongs to. */
import { unknownOptions } from "../../../core/model/field-errors.ts";
import type { FieldError } from "../../../core/model/problem.ts";

const BOUNDS = ["keepAliveMs", "maxIdle", "maxAgeMs"];
const OWN = [...BOUNDS, "http2", "hosts", "proxy"];

export function connectionProblems(options: unknown): readonly FieldError[] {
  const given = (options ?? {}) as Readonly<Record<string, unknown>>;
  const found: FieldError[] = [];
  for (const path of BOUNDS) {
    const { [path]: value = 0 } = given;
    if (!Number.isSafeInteger(value) || (value as number) < 0)
      found.push({ path, message: "must be a whole number, 0 or more" });
  }
  if (given["http2"] !== undefined && typeof given["http2"] !== "boolean")
    found.push({ path: "http2", message: "must be true or false" });
  return [...found, ...unknownOptions(options, OWN)];
}
