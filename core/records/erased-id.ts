/**
 * Keeps the id of an erased event for a day, and nothing else of it, so that a publisher that repeats itself does not
 * bring the event back. Only ids that the publisher chose: nobody sends one of the relay's own again.
 */
import { eventOrdinal } from "../model/ids.ts";
import { CONTROL, EVENT_ID, EXPIRY } from "../model/schema.ts";
import type { Change } from "../ports/storage.ts";

/** How long the id of an erased event stays taken, ms. */
export const ERASED_ID_MS = 86_400_000;

/** The text of an `eventid` row whose event was erased at that time, epoch ms. */
const erasedText = (at: number): string => `erased ${at}`;

/** Returns when the event of an `eventid` row was erased, epoch ms; `undefined`: it was not. */
export function erasedAt(text: string | undefined): number | undefined {
  const read = text === undefined ? null : /^erased (\d{1,16})$/.exec(text);
  return read === null ? undefined : Number(read[1]);
}

/** Returns what keeps the id of an event that is erased now. */
export function keepErasedId(keyId: string, id: string, ordinal: string, now: number): readonly Change[] {
  if (eventOrdinal(id) === ordinal) return [];
  const key = EVENT_ID.key({ keyId, id });
  return [{ op: "put", key, value: erasedText(now) }, EXPIRY.put({ at: now + ERASED_ID_MS, target: key }, "")];
}

/** Returns what a new use of the id must delete, so that the row of the new event stays. */
export function dropErasedExpiry(key: string, text: string | undefined): readonly Change[] {
  const at = erasedAt(text);
  return at === undefined ? [] : [EXPIRY.delete({ at: at + ERASED_ID_MS, target: key })];
}

const ERASED = { what: "erased" };

/**
 * Tells every node through storage itself that an event was erased: before its next attempt a node learns of changed
 * `control:` keys, also where messages of other nodes do not arrive. Goes into the commit that erases; never stored.
 */
export const tellErased = (ordinal: string): Change => CONTROL.delete({ ...ERASED, ordinal });

/** Returns the events that changed keys say were erased, by their ordinals; `all`: any may have been. */
export function erasedAmong(keys: readonly string[]): readonly string[] | "all" {
  if (keys.includes(CONTROL.start)) return "all";
  return keys.filter((key) => key.startsWith(CONTROL.under(ERASED))).map((key) => CONTROL.id(key).ordinal);
}
