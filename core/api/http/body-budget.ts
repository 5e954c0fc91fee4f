/** Bounds the bytes of request bodies that are held at once, in all and for each caller. */
import { MAX_BATCH_BYTES } from "../../model/event.ts";

/** The share of the budget that one caller may always hold, if there is room at all. */
const SHARE = 1 / 8;
/** The share of the free part that one caller may hold: a single caller gets a quarter of the whole. */
const SHARE_OF_FREE = 1 / 3;

export interface BodyBudget {
  /** True when there is room for so many bytes more of these callers. Each of them must have it. */
  fits(callers: readonly string[], bytes: number): boolean;
  /** Holds so many bytes more. False, with nothing held, when there is no room. */
  hold(callers: readonly string[], bytes: number): boolean;
  release(callers: readonly string[], bytes: number): void;
  /** The bytes that are held now. */
  held(): number;
}

/**
 * A caller may hold a third of what is still free, an eighth of the whole, or one body of the longest, whichever is most: so
 * uploads that stall keep nobody else out, and while there is much room a caller is not held to an eighth.
 * @param longest bytes of the longest body
 */
export function createBodyBudget(maxBytes: number, longest: number): BodyBudget {
  const always = Math.max(maxBytes * SHARE, longest);
  let held = 0;
  const byCaller = new Map<string, number>();

  function fits(callers: readonly string[], bytes: number): boolean {
    const free = maxBytes - held;
    if (bytes > free) return false;
    const most = Math.max(always, free * SHARE_OF_FREE);
    return callers.every((caller) => (byCaller.get(caller) ?? 0) + bytes <= most);
  }

  return {
    fits,
    hold(callers, bytes) {
      // What counts for no caller is nearly every event.
      if (callers.length === 0 ? bytes > maxBytes - held : !fits(callers, bytes)) return false;
      held += bytes;
      for (const caller of callers) byCaller.set(caller, (byCaller.get(caller) ?? 0) + bytes);
      return true;
    },
    release(callers, bytes) {
      held -= bytes;
      for (const caller of callers) {
        const left = (byCaller.get(caller) ?? 0) - bytes;
        if (left > 0) byCaller.set(caller, left);
        else byCaller.delete(caller);
      }
    },
    held: () => held,
  };
}

/** Bodies of management requests and logins are small, and many of them come before anyone is authenticated. */
export const SMALL_BODY = 64 * 1024;
/** While its last block is filled, a body holds more than its length. */
const LARGE_BODY = MAX_BATCH_BYTES + SMALL_BODY;
const SMALL_BYTES = 8 * 1024 * 1024;

/** The budgets of one server. Small bodies have their own, so that they cannot take the room of publishers. */
export interface BodyBudgets {
  readonly large: BodyBudget;
  /** Of bodies that may be up to `SMALL_BODY` long. */
  readonly small: BodyBudget;
}

/** @param maxBytes of bodies that are published */
export const createBodyBudgets = (maxBytes: number): BodyBudgets => ({
  large: createBodyBudget(maxBytes, LARGE_BODY),
  small: createBodyBudget(SMALL_BYTES, 2 * SMALL_BODY),
});
