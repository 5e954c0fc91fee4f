/** Makes the paths that commands ask the API for, and has the options of a list that comes in pages. */
import type { Given, Option } from "./command.ts";
import { usage } from "./exit.ts";

/** A path below the API key that `--key` names; each part is one segment of it. */
export const keyPath = (given: Given, ...parts: readonly (string | undefined)[]): string =>
  pathOf("api-keys", given.key(), ...parts);

/** A path of these segments. @throws ExitError 64 for `.` and `..`, which would ask for another path: the one above */
export const pathOf = (...parts: readonly (string | undefined)[]): string => `/${parts.map(segment).join("/")}`;

function segment(part = ""): string {
  // A URL has no way to write these two as a segment.
  if (part === "." || part === "..") throw usage(`"${part}" is no id or name`);
  return encodeURIComponent(part);
}

/** The path with those parameters that have a value. */
export function withQuery(path: string, query: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given as [string, string][])}`;
}

export const PAGE_OPTIONS: readonly Option[] = [
  { flags: "--limit <n>", about: "at most so many, 1 to 200 (50)" },
  { flags: "--cursor <cursor>", about: "go on where the last list ended" },
];

export const pageOf = (
  given: Given,
): { readonly limit?: number | undefined; readonly cursor?: string | undefined } => ({
  limit: given.whole("limit", 1, 200),
  cursor: given.text("cursor"),
});
