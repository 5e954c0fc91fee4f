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

/** A problem for each option of a plug-in that is not among those it has, and one where they are no object. */
export function unknownOptions(options: unknown, known: readonly string[]): readonly FieldError[] {
  if (typeof options !== "object" || options === null || Array.isArray(options))
    return [{ path: "", message: "the options must be an object" }];
  return Object.keys(options)
    .filter((path) => !known.includes(path))
    .map((path) => ({ path, message: "is not an option" }));
}

/** `["events", 2, "name"]` → `events[2].name` */
function fieldPath(path: readonly PropertyKey[]): string {
  let out = "";
  for (const part of path)
    out += typeof part === "number" ? `[${part}]` : out === "" ? String(part) : `.${String(part)}`;
  return out;
}
