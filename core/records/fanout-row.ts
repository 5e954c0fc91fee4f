/**
 * Reads and writes the row of a wide event: which snapshot it uses, and the state of all its deliveries together, so
 * that its status does not take thousands of reads.
 *
 * `<snapshot> open <turn>`: some may be pending. Each replay changes the turn. `<snapshot> ended <status> <at>`: all
 * have ended, until a replay opens it again. `<snapshot> removing <written> <id,…>`: the event is gone, and its
 * deliveries are being deleted; how many are gone, and the ids of those that are not in the snapshot.
 */
import type { EventStatus } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { randomId } from "../model/ids.ts";
import { EVENT, FANOUT } from "../model/schema.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { readEvent, readTexts } from "./damage.ts";

type FanoutRow = { readonly snapshot: string } & (
  | { readonly state: "open" }
  | { readonly state: "ended"; readonly status: EventStatus; readonly at: number }
  | { readonly state: "removing"; readonly removed: number; readonly added: readonly string[] }
);

export const openFanout = (snapshot: string): string => `${snapshot} open`;
/** Returns a text that differs from every earlier one. */
const reopenFanout = (snapshot: string): string => `${snapshot} open ${randomId("turn")}`;
export const endedFanout = (snapshot: string, status: EventStatus, at: number): string =>
  `${snapshot} ended ${status} ${at}`;
export const removingFanout = (snapshot: string, removed: number, added: readonly string[]): string =>
  `${snapshot} removing ${removed} ${added.join(",")}`;

/** @throws SyntaxError when the text is not a fan-out row */
export function parseFanout(text: string): FanoutRow {
  const [snapshot = "", state, one = "", two = ""] = text.split(" ");
  if (/^[0-9a-f]{32}$/.test(snapshot)) {
    if (state === "open") return { snapshot, state };
    if (state === "ended") return { snapshot, state, status: one as EventStatus, at: Number(two) };
    if (state === "removing") {
      return { snapshot, state, removed: Number(one), added: two === "" ? [] : two.split(",") };
    }
  }
  throw new SyntaxError("the text is not the row of a wide event");
}

/** Does the same, but returns `undefined` for a damaged row. */
export function fanoutOf(text: string): FanoutRow | undefined {
  try {
    return parseFanout(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Whether an event, which is gone, was a wide one whose deliveries are still being deleted. @throws SyntaxError, StorageError */
export async function isRemoving(storage: Pick<Storage, "getItem">, keyId: string, ordinal: string): Promise<boolean> {
  const row = await storage.getItem(FANOUT.key({ keyId, ordinal }));
  return row !== undefined && parseFanout(row).state === "removing";
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
  const key = FANOUT.key({ keyId, ordinal });
  const [row] = await readTexts(storage, [key]);
  if (row === undefined) return [];
  const known = fanoutOf(row);
  if (known?.state === "removing") return undefined;
  if (known !== undefined) return [{ op: "put", key, value: reopenFanout(known.snapshot), if: row }];
  const own = EVENT.key({ keyId, ordinal });
  const [text] = await readTexts(storage, [own]);
  const { event } = readEvent(keyId, ordinal, text);
  if (text === undefined || event.wide === undefined) return undefined;
  return [
    { op: "check", key: own, if: text },
    { op: "put", key, value: reopenFanout(event.wide.snapshot), if: row },
  ];
}

/** Does the same in a commit that is conditional on the event's record. */
export const reopened = ({ keyId, ordinal, wide }: RelayEvent): readonly Change[] =>
  wide === undefined ? [] : [FANOUT.put({ keyId, ordinal }, reopenFanout(wide.snapshot))];
