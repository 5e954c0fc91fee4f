/** What a format of import files makes of one entry. */
import { objectOf } from "./entries.ts";
export type Translated =
  /** The body of the request that creates the subscription; `notes` name what is not carried over. */
  | { readonly body: Readonly<Record<string, unknown>>; readonly notes?: readonly string[] }
  /** What keeps the entry from being imported, as `field: message`. */
  | { readonly errors: readonly string[]; readonly url?: string };

export type Format = (fields: Readonly<Record<string, unknown>>) => Translated;

export const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** A list, map or text with something in it. */
export function isFilled(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}

/** What the relay gives a subscription; an import gives it new ones. */
const GIVEN_BY_RELAY = ["id", "disabledReason", "createdAt", "updatedAt"];

/** Fields that it does not know are kept, so that the check of the entry names them. */
export const ours: Format = (fields) => {
  const body = Object.fromEntries(Object.entries(fields).filter(([name]) => !GIVEN_BY_RELAY.includes(name)));
  // A schedule is listed with the attempts that follow from it, which a request does not name.
  const delaysMs = objectOf(body["retry"])?.["delaysMs"];
  return { body: delaysMs === undefined ? body : { ...body, retry: { delaysMs } } };
};
