/** Finds an event by its id: ours tell their place, a publisher's own is looked up. */
import { decodeEvent, type RelayEvent } from "../model/event.ts";
import { eventOrdinal } from "../model/ids.ts";
import { eventIdKey, eventKey } from "../model/keys.ts";
import type { Storage } from "../ports/storage.ts";

export interface Located {
  readonly event: RelayEvent;
  /** The record as it stands, for conditional changes. */
  readonly text: string;
}

export async function locateEvent(
  storage: Pick<Storage, "getItem">,
  keyId: string,
  eventId: string,
): Promise<Located | undefined> {
  const own = await storage.getItem(eventIdKey(keyId, eventId));
  const ordinal = own ?? eventOrdinal(eventId);
  if (ordinal === undefined) return undefined;
  const text = await storage.getItem(eventKey(keyId, ordinal));
  if (text === undefined) return undefined;
  const event = decodeEvent(text);
  return event.id === eventId ? { event, text } : undefined;
}
