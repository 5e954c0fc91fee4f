/** The check of the options that the storages of one process share. */
import { unknownOptions } from "../../../core/model/field-errors.ts";
import type { FieldError } from "../../../core/model/problem.ts";

/** The least and the most of a whole number. */
type Bounds = readonly [least: number, most: number];

const WINDOW: Bounds = [16, 1_000_000];

/**
 * Returns what is wrong with the options of an embedded storage. A wrong name is a problem too: what it was meant to change
 * would silently stay as it is.
 * @param own the whole numbers that only this storage has, with their bounds
 */
export function embeddedProblems(
  options: unknown,
  own: Readonly<Record<string, Bounds>> = {},
  strings: readonly string[] = [],
): readonly FieldError[] {
  const given = (options ?? {}) as Readonly<Record<string, unknown>>;
  const numbers = { window: WINDOW, ...own };
  const found = [...unknownOptions(options, [...Object.keys(numbers), ...strings])];
  for (const [path, [least, most]] of Object.entries(numbers)) {
    const value = given[path];
    if (value === undefined || (Number.isInteger(value) && (value as number) >= least && (value as number) <= most))
      continue;
    found.push({ path, message: `must be a whole number from ${least} to ${most}` });
  }
  for (const path of strings) {
    const value = given[path];
    if (value !== undefined && (typeof value !== "string" || value === "")) {
      found.push({ path, message: "must be a folder" });
    }
  }
  return found;
}
