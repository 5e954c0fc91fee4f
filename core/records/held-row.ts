/** Writes and reads the row of a failed delivery that holds up its sequence. */
import { summed, withSum } from "../model/checksum.ts";

export interface HeldRow {
  readonly keyId: string;
  readonly ordinal: string;
  readonly place: number;
  /** Epoch ms. */
  readonly since: number;
  readonly eventId: string;
}

export const heldText = ({ keyId, ordinal, place, since, eventId }: HeldRow): string =>
  withSum(`${keyId} ${ordinal} ${place} ${since} ${eventId}`);

/** @returns `undefined` when the row is damaged */
export function parseHeld(text: string): HeldRow | undefined {
  const [keyId = "", ordinal = "", place, since, eventId] = summed(text)?.split(" ") ?? [];
  return eventId === undefined ? undefined : { keyId, ordinal, place: Number(place), since: Number(since), eventId };
}
