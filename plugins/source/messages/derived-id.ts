/** Derives an event's id from where its message stood, so that a redelivery is recognised as a repeat. */
import { hash } from "node:crypto";
import { isEventId } from "../../../core/model/names.ts";

/**
 * Returns `orders-1699-0`, or `orders-1699-0:3` for an event of a batch. A place that is no valid id becomes its hash.
 * @param at the event's place in its message's batch; `undefined` for a message of one event
 */
export function derivedId(place: string, at?: number): string {
  const plain = at === undefined ? place : `${place}:${at}`;
  return isEventId(plain) ? plain : `h-${hash("sha256", plain, "hex").slice(0, 40)}`;
}
