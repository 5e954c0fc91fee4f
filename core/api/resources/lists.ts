/** Pages of a list: their query, and cursors, a place in a list that can be neither read, made nor used elsewhere. */
import { z } from "zod";
import { isOrdinal } from "../../model/ids.ts";
import { Problem } from "../../model/problem.ts";
import type { Keys } from "../../ports/plugin.ts";

export const DEFAULT_LIMIT = 50;
export const MAX_LIMIT = 200;

/** Query parameters of a list. */
export const paging = {
  cursor: z.string().max(1_024).optional(),
  limit: z
    .string()
    .regex(/^\d{1,3}$/, "must be 1 to 200")
    .transform(Number)
    .refine((limit) => limit >= 1 && limit <= MAX_LIMIT, "must be 1 to 200")
    .optional()
    .meta({
      type: "integer",
      minimum: 1,
      maximum: MAX_LIMIT,
      pattern: undefined,
      description: `${DEFAULT_LIMIT} when left out.`,
    }),
};
export const pageQuery = z.strictObject(paging);

export interface Cursors {
  /** @param list names the list, the key and the filters that it goes on in */
  write(place: string | undefined, list: string): string | undefined;
  /** @throws Problem VALIDATION_FAILED for a cursor that is foreign or broken */
  read(cursor: string | undefined, list: string): string | undefined;
}

export function createCursors(keys: Pick<Keys, "seal" | "open">, valid = isOrdinal): Cursors {
  return {
    write(place, list) {
      if (place === undefined) return undefined;
      return Buffer.from(keys.seal(place, `cursor:${list}`)).toString("base64url");
    },
    read(cursor, list) {
      if (cursor === undefined) return undefined;
      const sealed = Buffer.from(cursor, "base64url");
      try {
        const place = keys.open(sealed.toString(), `cursor:${list}`);
        // Base64 has several spellings of the same bytes; only ours is taken.
        if (sealed.toString("base64url") === cursor && valid(place)) return place;
      } catch {
        // The client learns only that it is no cursor of this list.
      }
      throw new Problem("VALIDATION_FAILED", "Go on with the cursor of this very list, or begin without one.", {
        errors: [{ path: "cursor", message: "is not a cursor of this list" }],
      });
    },
  };
}

/** True for a place that is a count: so many items are skipped. */
export const isCount = (place: string): boolean => /^\d{1,9}$/.test(place);
