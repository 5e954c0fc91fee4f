/** What a format of import files makes of one entry. */
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
