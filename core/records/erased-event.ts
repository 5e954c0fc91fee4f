/**
 * Tells every node through storage itself that an event was erased: before its next attempt a node learns of changed
 * `control:` keys, also where messages of other nodes do not arrive.
 */
import type { Change } from "../ports/storage.ts";

const CONTROL = "control:";
const ERASED = `${CONTROL}erased:`;

/** Goes into the commit that erases the event. The key is never stored. */
export const tellErased = (ordinal: string): Change => ({ op: "delete", key: `${ERASED}${ordinal}` });

/** Returns the events that changed keys say were erased, by their ordinals; `all`: any may have been. */
export function erasedAmong(keys: readonly string[]): readonly string[] | "all" {
  if (keys.includes(CONTROL)) return "all";
  return keys.filter((key) => key.startsWith(ERASED)).map((key) => key.slice(ERASED.length));
}
