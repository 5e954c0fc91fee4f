/**
 * Deletes wide events: first the event itself, in a commit that turns its row to `removing`, then its deliveries in
 * pages, each with the row's next state, then the row. The next run continues what was interrupted. Also deletes
 * snapshots that no event uses.
 */
import type { EventStatus } from "../model/delivery.ts";
import { eventOrdinal, ordinalTime, randomId } from "../model/ids.ts";
import { DAMAGED } from "../model/kind.ts";
import { ERASING, EVENT, EVENT_ID, FANOUT, MEMBERS, SNAPSHOT } from "../model/schema.ts";
import type { Change, Entry } from "../ports/storage.ts";
import { everyEntry } from "../records/every-entry.ts";
import { PAGE_MEMBERS } from "../records/recipients.ts";
import { countOf } from "../records/snapshots.ts";
import { tryCommit } from "../records/transaction.ts";
import type { ReadWideStatus } from "../records/wide-status.ts";
import type { StoredEvent } from "./judge-events.ts";
import { addNext, removeDelivery, type Removing } from "./remove-delivery.ts";

/** How often a page is read again when one of its deliveries changed meanwhile. */
const TRIES = 5;
/** Begins the row of a snapshot that no event uses any more. */
const CLOSING = "closing ";

/** Returns from when on an event of this status that ended then may be deleted, epoch ms; `undefined`: never. */
export type GoesAt = (status: EventStatus, endedAt: number) => number | undefined;

type WideVerdict =
  | { readonly do: "removed" }
  /** `at` is epoch ms; absent when nobody can say when, because it has not ended or has just changed. */
  | { readonly do: "later"; readonly at?: number }
  /** Until a replay, which has it judged again. */
  | { readonly do: "keep" };

/** Deletes an event if its time has come. @param now epoch ms */
export async function removeWide(
  { storage, wideStatus }: { readonly storage: Removing; readonly wideStatus: ReadWideStatus },
  { event, text }: StoredEvent,
  goesAt: GoesAt,
  now: number,
): Promise<WideVerdict> {
  const { keyId, ordinal, id, subscriptionIds, wide } = event;
  const { status, endedAt, row } = await wideStatus(event);
  if (wide === undefined || row === undefined || endedAt === undefined) return { do: "later" };
  const at = goesAt(status, endedAt);
  if (at === undefined) return { do: "keep" };
  // No number at all when the row is damaged.
  if (!(at <= now)) return Number.isFinite(at) ? { do: "later", at } : { do: "later" };
  const removing = { snapshot: wide.snapshot, state: "removing", removed: 0, added: subscriptionIds } as const;
  const changes: Change[] = [EVENT.delete({ keyId, ordinal }, text), FANOUT.put({ keyId, ordinal }, removing, row)];
  if (eventOrdinal(id) !== ordinal) changes.push(EVENT_ID.delete({ keyId, id }));
  if (!(await tryCommit(storage, changes))) return { do: "later" };
  await finishWide(storage, keyId, ordinal, FANOUT.write(removing));
  return { do: "removed" };
}

/** Deletes the deliveries of an event whose row says that it is being removed, and the row. */
export async function finishWide(
  storage: Removing,
  keyId: string,
  ordinal: string,
  row: string,
  signal?: AbortSignal,
): Promise<void> {
  for (let now: string | undefined = row; now !== undefined && !signal?.aborted;)
    now = await removePage(storage, keyId, ordinal, now);
}

/**
 * Deletes the next page of deliveries.
 * @returns the new row; `undefined` when nothing is left, or another node works on it
 */
async function removePage(storage: Removing, keyId: string, ordinal: string, row: string): Promise<string | undefined> {
  const key = FANOUT.key({ keyId, ordinal });
  const now = FANOUT.orThrow(row);
  if (now.state !== "removing") return undefined;
  const { snapshot, removed, added } = now;
  // Pages of the snapshot one by one, then the deliveries that replays added.
  const at = Math.floor(removed / PAGE_MEMBERS);
  const keys = [MEMBERS.key({ keyId, id: snapshot, page: at }), ERASING.key({ keyId, ordinal })];
  const [text, erasing] = await storage.getMany(keys);
  // An erasure lets those behind a held delivery go on; when an event has only become old, they wait until a skip.
  const staysHeld = erasing === undefined;
  const ids = text === undefined ? added : MEMBERS.orThrow(text).map(({ id }) => id);
  const next = text === undefined ? undefined : FANOUT.write({ ...now, removed: removed + PAGE_MEMBERS });
  const event = { keyId, ordinal, acceptedAt: ordinalTime(ordinal) };
  for (let tries = 0; tries < TRIES; tries++) {
    const gone = await Promise.all(ids.map((id) => removeDelivery(storage, event, id, staysHeld)));
    const mine: Change = next === undefined ? { op: "delete", key, if: row } : { op: "put", key, value: next, if: row };
    if (await tryCommit(storage, [mine, ...gone.flatMap(({ changes }) => changes)])) {
      addNext(storage, gone);
      return next;
    }
    if ((await storage.getItem(key)) !== row) return undefined;
  }
  return undefined;
}

/** Continues what an earlier run left of the events of a key, and deletes unused snapshots. */
export async function tidyWide(storage: Removing, keyId: string, signal: AbortSignal): Promise<void> {
  const before = new Set<string>();
  for await (const { value } of everyEntry(storage, SNAPSHOT.under({ keyId }))) before.add(value);
  if (before.size === 0) return;
  const used = new Set<string>();
  for await (const { key, value } of everyEntry(storage, FANOUT.under({ keyId }))) {
    if (signal.aborted) return;
    const row = FANOUT.read(value);
    // It is unknown which snapshot it uses, so none is deleted. The check of stored data reports it.
    if (row === DAMAGED) return;
    used.add(SNAPSHOT.key({ keyId, id: row.snapshot }));
    if (row.state === "removing") await finishWide(storage, keyId, FANOUT.id(key).ordinal, value, signal);
  }
  for await (const one of everyEntry(storage, SNAPSHOT.under({ keyId }))) {
    if (signal.aborted) return;
    if (!used.has(one.key)) await removeSnapshot(storage, one, before);
  }
}

/**
 * Closes an unused snapshot, and deletes it one run later: an event being stored meanwhile finds it closed, or is
 * stored already.
 * @param before the texts of all snapshots before the rows of the events were read: that of a closed one is unique
 */
async function removeSnapshot(storage: Removing, { key, value }: Entry, before: ReadonlySet<string>): Promise<void> {
  if (countOf(value) !== undefined) {
    await tryCommit(storage, [{ op: "put", key, value: `${CLOSING}${randomId("gc")}`, if: value }]);
  } else if (value.startsWith(CLOSING) && before.has(value)) {
    for await (const { key: members } of everyEntry(storage, MEMBERS.under(SNAPSHOT.id(key)))) {
      const one: readonly Change[] = [
        { op: "check", key, if: value },
        { op: "delete", key: members },
      ];
      if (!(await tryCommit(storage, one))) return;
    }
    await tryCommit(storage, [{ op: "delete", key, if: value }]);
  }
}
