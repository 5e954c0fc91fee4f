/** Opens the row of a wide event again, and tells whether the event is being removed. */
import type { RelayEvent } from "../model/event.ts";
import { randomId } from "../model/ids.ts";
import { DAMAGED } from "../model/kind.ts";
import { EVENT, FANOUT, type FanoutRow } from "../model/schema.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { readEvent, readOrThrow, readTexts } from "./damage.ts";

/** Returns a row that differs from every earlier one. */
const reopen = (snapshot: string): FanoutRow => ({ snapshot, state: "open", turn: randomId("turn") });

/** Returns true when an event that is gone was wide, and its deliveries are still being deleted. @throws DamagedRecordError, StorageError */
export async function isRemoving(storage: Pick<Storage, "getItem">, keyId: string, ordinal: string): Promise<boolean> {
  return (await readOrThrow(storage, FANOUT, { keyId, ordinal }))?.state === "removing";
}

/**
 * Returns the changes that a replay of one delivery adds for a wide event: its row no longer says that all have ended. A
 * damaged row is made again, by what the event itself says.
 * @returns no changes for other events; `undefined` when the event is being removed, or is damaged like its row
 */
export async function reopening(
  storage: Pick<Storage, "getItem" | "getMany">,
  keyId: string,
  ordinal: string,
): Promise<readonly Change[] | undefined> {
  const [row] = await readTexts(storage, [FANOUT.key({ keyId, ordinal })]);
  if (row === undefined) return [];
  const known = FANOUT.read(row);
  if (known !== DAMAGED)
    return known.state === "removing" ? undefined : [FANOUT.put({ keyId, ordinal }, reopen(known.snapshot), row)];
  const own = EVENT.key({ keyId, ordinal });
  const [text] = await readTexts(storage, [own]);
  const { event } = readEvent(keyId, ordinal, text);
  if (text === undefined || event.wide === undefined) return undefined;
  return [{ op: "check", key: own, if: text }, FANOUT.put({ keyId, ordinal }, reopen(event.wide.snapshot), row)];
}

/** Does the same in a commit that is conditional on the event's record. */
export const reopened = ({ keyId, ordinal, wide }: RelayEvent): readonly Change[] =>
  wide === undefined ? [] : [FANOUT.put({ keyId, ordinal }, reopen(wide.snapshot))];
