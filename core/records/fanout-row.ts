/**
 * The row of a wide event: which snapshot it uses, and what is known of its deliveries as a whole, so that nobody has to
 * read thousands of them to tell its status.
 *
 * `<snapshot> open <turn>`: it is not known that all have ended. Each replay changes the turn.
 * `<snapshot> ended <status> <at>`: all have ended, and stay so until a replay opens it again.
 * `<snapshot> removing <written> <id,…>`: retention has removed the event and is about to remove the deliveries; how many
 * are gone, and the ids of those that are not in the snapshot.
 */
import type { EventStatus } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { randomId } from "../model/ids.ts";
import { fanoutKey } from "../model/keys.ts";
import type { Change, Storage } from "../ports/storage.ts";

export type FanoutRow = { readonly snapshot: string } & (
  | { readonly state: "open" }
  | { readonly state: "ended"; readonly status: EventStatus; readonly at: number }
  | { readonly state: "removing"; readonly removed: number; readonly added: readonly string[] }
);

export const openFanout = (snapshot: string): string => `${snapshot} open`;
/** Another text than any before. */
export const reopenFanout = (snapshot: string): string => `${snapshot} open ${randomId("turn")}`;
export const endedFanout = (snapshot: string, status: EventStatus, at: number): string =>
  `${snapshot} ended ${status} ${at}`;
export const removingFanout = (snapshot: string, removed: number, added: readonly string[]): string =>
  `${snapshot} removing ${removed} ${added.join(",")}`;

/** @throws SyntaxError when the text is not one of ours */
export function parseFanout(text: string): FanoutRow {
  const [snapshot = "", state, one = "", two = ""] = text.split(" ");
  if (/^[0-9a-f]{32}$/.test(snapshot)) {
    if (state === "open") return { snapshot, state };
    if (state === "ended") return { snapshot, state, status: one as EventStatus, at: Number(two) };
    if (state === "removing") {
      return { snapshot, state, removed: Number(one), added: two === "" ? [] : two.split(",") };
    }
  }
  throw new SyntaxError("not the row of a wide event");
}

/**
 * What a replay of one delivery changes beside it: the row of a wide event says no more that all have ended.
 * @returns nothing to change for other events; `undefined` when the event is being removed
 */
export async function reopening(
  storage: Pick<Storage, "getItem">,
  keyId: string,
  ordinal: string,
): Promise<readonly Change[] | undefined> {
  const key = fanoutKey(keyId, ordinal);
  const row = await storage.getItem(key);
  if (row === undefined) return [];
  const { snapshot, state } = parseFanout(row);
  if (state === "removing") return undefined;
  return [{ op: "put", key, value: reopenFanout(snapshot), if: row }];
}

/** The same, in a commit that is conditional on the event's record. */
export const reopened = ({ keyId, ordinal, wide }: RelayEvent): readonly Change[] =>
  wide === undefined ? [] : [{ op: "put", key: fanoutKey(keyId, ordinal), value: reopenFanout(wide.snapshot) }];
