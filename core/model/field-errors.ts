/** Turns what a schema finds wrong with a value into the field errors of an answer. */
import type { FieldError } from "./problem.ts";

/** One finding, as zod reports it. */
export interface SchemaIssue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly code?: string | undefined;
  /** With the code `unrecognized_keys`: the names that the schema does not have. */
  readonly keys?: readonly string[];
}

/** A line for each problem, and one for each unknown name. */
export const fieldErrors = (issues: readonly SchemaIssue[]): readonly FieldError[] =>
  issues.flatMap(({ path, message, code, keys }) => {
    const at = fieldPath(path);
    if (code !== "unrecognized_keys") return [{ path: at, message }];
    return (keys ?? []).map((name) => ({ path: at === "" ? name : `${at}.${name}`, message: "is not known" }));
  });

/** A problem for each option of a plug-in that is not among those it has. */
export const unknownOptions = (options: object, known: readonly string[]): readonly FieldError[] =>
  Object.keys(options)
    .filter((path) => !known.includes(path))
    .map((path) => ({ path, message: "is not an option" }));

/** `["events", 2, "name"]` → `events[2].name` */
function fieldPath(path: readonly PropertyKey[]): string {
  let out = "";
  for (const part of path)
    out += typeof part === "number" ? `[${part}]` : out === "" ? String(part) : `.${String(part)}`;
  return out;
}
