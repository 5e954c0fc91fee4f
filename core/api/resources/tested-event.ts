/** The event that a filter or a transform is tested on: a stored one of the key, or one in the request. */
import { z } from "zod";
import type { RelayEvent } from "../../model/event.ts";
import { noSuch, Problem } from "../../model/problem.ts";
import type { Storage } from "../../ports/storage.ts";
import { locateEvent } from "../../records/find-event.ts";

/** Fields of the request, of which one is given. */
export const testedEvent = {
  eventId: z.string().max(128).optional().meta({ description: "A stored event of the key." }),
  event: z
    .strictObject({
      type: z.string().min(1).max(128),
      data: z.unknown().refine((data) => data !== undefined, "is missing"),
    })
    .optional()
    .meta({ description: "An event that is not stored." }),
} as const;

/** For `refine`: whether one of the fields is given. */
export const isOneEvent = ({ eventId, event }: { readonly eventId?: unknown; readonly event?: unknown }): boolean =>
  (eventId === undefined) !== (event === undefined);
/** The same for the documentation. */
export const ONE_EVENT = { oneOf: [{ required: ["eventId"] }, { required: ["event"] }] };
export const NOT_ONE_EVENT = { path: ["eventId"], message: "give either eventId or event" };

/** @throws Problem NOT_FOUND; VALIDATION_FAILED when its record is damaged */
export async function storedEvent(
  storage: Pick<Storage, "getItem" | "getMany">,
  keyId: string,
  id: string,
): Promise<RelayEvent> {
  const located = await locateEvent(storage, keyId, id);
  if (located === undefined) throw noSuch("event");
  if (!located.damaged) return located.event;
  const errors = [{ path: "eventId", message: "names an event whose stored record is damaged" }];
  throw new Problem("VALIDATION_FAILED", "Choose another event.", { errors });
}
