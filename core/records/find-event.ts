/** Finds an event by its id. The relay's ids contain the place; a publisher's id has a row that names it. */
import { eventOrdinal } from "../model/ids.ts";
import { EVENT, EVENT_ID } from "../model/schema.ts";
import type { Storage } from "../ports/storage.ts";
import { erasedAt } from "./erased-id.ts";
import { readEvent, readTexts, type ReadEvent } from "./damage.ts";

export interface Located extends ReadEvent {
  /** The record's text, for conditional changes; empty when the storage cannot read it. */
  readonly text: string;
}

export async function locateEvent(
  storage: Pick<Storage, "getItem" | "getMany">,
  keyId: string,
  eventId: string,
): Promise<Located | undefined> {
  const own = await storage.getItem(EVENT_ID.key({ keyId, id: eventId }));
  const ordinal = own ?? eventOrdinal(eventId);
  if (ordinal === undefined || erasedAt(own) !== undefined) return undefined;
  const [text] = await readTexts(storage, [EVENT.key({ keyId, ordinal })]);
  if (text === undefined) return undefined;
  const found = readEvent(keyId, ordinal, text);
  // The id led here. A damaged record may show another id, and is still the right one.
  if (found.damaged) return { ...found, event: { ...found.event, id: eventId }, text };
  return found.event.id === eventId ? { ...found, text } : undefined;
}
