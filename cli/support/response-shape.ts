/** Checks the shape of an answer before a command prints it: another server, or another version, may have answered. */
import type { ApiAnswer } from "./client.ts";
import { EX_UNAVAILABLE, ExitError } from "./exit.ts";

type Kind = "text" | "number" | "flag" | "list" | "any";
/** Which fields must be there, and of what kind they are. */
export type Shape<T> = { readonly [K in keyof T]?: Kind };

/** `data` as one record. @throws ExitError 69 */
export function record<T extends object>({ data }: ApiAnswer, shape: Shape<T>): T {
  if (!fits(data, shape)) throw foreign();
  return data;
}

/** `data` as a list of records. @throws ExitError 69 */
export function rows<T extends object>({ data }: ApiAnswer, shape: Shape<T>): readonly T[] {
  if (!Array.isArray(data)) throw foreign();
  return data.map((one: unknown) => {
    if (!fits(one, shape)) throw foreign();
    return one;
  });
}

const foreign = (): ExitError => new ExitError(EX_UNAVAILABLE, "the answer is not that of a relay of this version");

const KINDS: Readonly<Record<Kind, (value: unknown) => boolean>> = {
  text: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  flag: (value) => typeof value === "boolean",
  list: (value) => Array.isArray(value),
  any: (value) => value !== undefined,
};

function fits<T extends object>(value: unknown, shape: Shape<T>): value is T {
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(shape).every(([name, kind]) => KINDS[kind as Kind]((value as Record<string, unknown>)[name]));
}
