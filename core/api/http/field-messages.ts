/** Says what is wrong with a field, in the API's own words, for API, CLI and dashboard. */
import type { z } from "zod";

const TYPES: Readonly<Record<string, string>> = {
  string: "must be text",
  number: "must be a number",
  int: "must be a whole number",
  boolean: "must be true or false",
  array: "must be a list",
  object: "must be an object",
  record: "must be an object",
};

/** The message of one issue where its schema brings none: the `error` option of `safeParse`. */
export function fieldMessage(issue: z.core.$ZodRawIssue): string {
  if (issue.input === undefined && (issue.code === "invalid_type" || issue.code === "invalid_value"))
    return "is missing";
  switch (issue.code) {
    case "invalid_type":
      return TYPES[issue.expected] ?? "has the wrong type";
    case "invalid_value":
      return issue.values.length === 1
        ? `must be ${String(issue.values[0])}`
        : `must be one of: ${issue.values.map(String).join(", ")}`;
    case "too_small":
      return atLeast(issue.origin, issue.minimum);
    case "too_big":
      return atMost(issue.origin, issue.maximum);
    case "invalid_format":
      return issue.format === "datetime"
        ? "must be a time with its zone, such as 2026-11-20T10:00:00Z"
        : "has the wrong form";
    case "unrecognized_keys":
      return "is not known";
    default:
      return "is not valid";
  }
}

function atLeast(origin: string, least: number | bigint): string {
  if (origin === "string") return least === 1 ? "must not be empty" : `must have at least ${least} characters`;
  if (origin === "array") return least === 1 ? "must have at least one item" : `must have at least ${least} items`;
  return `must be at least ${least}`;
}

function atMost(origin: string, most: number | bigint): string {
  if (origin === "string") return `must have at most ${most} characters`;
  return origin === "array" ? `must have at most ${most} items` : `must be at most ${most}`;
}
