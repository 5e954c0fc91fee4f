/** Finds an event by its id: ours tell their place, a publisher's own is looked up. */
import { eventOrdinal } from "../model/ids.ts";
import { eventIdKey, eventKey } from "../model/keys.ts";
import type { Storage } from "../ports/storage.ts";
import { readEvent, readTexts, type ReadEvent } from "./damage.ts";

export interface Located extends ReadEvent {
  /** The record as it stands, for conditional changes; empty when the storage cannot read it. */
  readonly text: string;
}

export async function locateEvent(
  storage: Pick<Storage, "getItem" | "getMany">,
  keyId: string,
  eventId: string,
): Promise<Located | undefined> {
  const own = await storage.getItem(eventIdKey(keyId, eventId));
  const ordinal = own ?? eventOrdinal(eventId);
  if (ordinal === undefined) return undefined;
  const [text] = await readTexts(storage, [eventKey(keyId, ordinal)]);
  if (text === undefined) return undefined;
  const found = readEvent(keyId, ordinal, text);
  // The id led here: a damaged record, which may say another, is still the one that was meant.
  if (found.damaged) return { ...found, event: { ...found.event, id: eventId }, text };
  return found.event.id === eventId ? { ...found, text } : undefined;
}
