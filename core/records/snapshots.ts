/**
 * Writes snapshots: the list of subscriptions that a wide event goes to, written before the event and shared by all
 * events with the same list. So an event's commit does not grow with its subscribers, and later changes of
 * subscriptions do not affect it.
 *
 * A header says whether the list is complete: `writing`, then `live <count>`. An event is stored on condition that its
 * snapshot is live. Retention turns the header of an unused snapshot to `closing <nonce>`, so that no event can begin
 * to use it, and removes it in the next run. An event that needs it meanwhile writes it again.
 */
import { ConflictError, StorageError, untilCommitted } from "../model/errors.ts";
import type { Wide } from "../model/event.ts";
import { type FanoutMember, MEMBERS, SNAPSHOT } from "../model/schema.ts";
import type { Change, Storage } from "../ports/storage.ts";
import type { Subscription } from "../model/subscription.ts";
import { isOutline } from "./subscription-record.ts";
import { PAGE_MEMBERS, snapshotId } from "./recipients.ts";

const WRITING = "writing";
const liveText = (count: number): string => `live ${count}`;
/** Returns how many members a snapshot has, by its header; `undefined` while it is not complete. */
export function countOf(header = ""): number | undefined {
  const count = /^live (\d{1,9})$/.exec(header)?.[1];
  return count === undefined ? undefined : Number(count);
}
const PAGES_AT_ONCE = 8;
/** How often a writer starts over after it lost against another writer or against retention. */
const TRIES = 16;

/** The subscriptions that an event goes to. */
export interface Fanout {
  /** Active subscriptions: one delivery each, due at once. */
  readonly due: readonly Subscription[];
  /** Active subscriptions that are ordered: one delivery each, due when its turn comes. Absent when there are none. */
  readonly ordered?: readonly Subscription[];
  /** Disabled subscriptions: one delivery each that has already failed, kept for replay. */
  readonly failed: readonly Subscription[];
  /** Ids of all of them, in the order of the subscriptions. */
  readonly ids: readonly string[];
}

/** A list that must be stored before the events that go to it. */
export interface Snapshot {
  readonly keyId: string;
  readonly wide: Wide;
  readonly fan: Fanout;
}

interface Snapshots {
  /** Returns the snapshot of a fan-out, which may not be stored yet. The same object for the same fan-out. */
  of(keyId: string, fan: Fanout): Snapshot;
  /**
   * Stores the snapshots that are missing.
   * @param again reads again whether they exist, even if they did before
   * @returns the conditions for the commit of the events
   * @throws StorageError
   */
  ready(wanted: Iterable<Snapshot>, again?: boolean): Promise<readonly Change[]>;
  /** Forgets snapshots after a commit that was conditional on them was refused: they may be gone. */
  forget(wanted: Iterable<Snapshot>): void;
}

export function createSnapshots(storage: Pick<Storage, "commit" | "getItem">): Snapshots {
  const made = new WeakMap<Fanout, Snapshot>();
  /** Snapshots known to be live, by object: an object lives as long as the list of subscriptions in memory. */
  const live = new WeakMap<Snapshot, Promise<void>>();

  async function write(snapshot: Snapshot): Promise<void> {
    const { keyId, wide, fan } = snapshot;
    const { snapshot: id, count } = wide;
    const pages = pagesOf(fan);
    const key = SNAPSHOT.key({ keyId, id });
    // After a conflict: another node has finished the same list, or soon will. It writes what we write.
    await untilCommitted(async () => {
      const text = await storage.getItem(key);
      if (text === liveText(count)) return;
      // Retention may have removed part of it, so all of it is written again.
      if (text !== WRITING) await storage.commit([{ op: "put", key, value: WRITING, if: text ?? null }]);
      for (let from = 0; from < pages.length; from += PAGES_AT_ONCE) {
        const rows = pages.slice(from, from + PAGES_AT_ONCE);
        await storage.commit([
          { op: "check", key, if: WRITING },
          ...rows.map((value, i) => MEMBERS.put({ keyId, id, page: from + i }, value)),
        ]);
      }
      await storage.commit([{ op: "put", key, value: liveText(count), if: WRITING }]);
    }, TRIES).catch((error: unknown) => {
      if (!(error instanceof ConflictError)) throw error;
      throw new StorageError("unavailable", "too many writers change the same list of subscriptions at once");
    });
  }

  function ensure(snapshot: Snapshot): Promise<void> {
    const known = live.get(snapshot);
    if (known !== undefined) return known;
    const writing = write(snapshot);
    live.set(snapshot, writing);
    writing.catch(() => live.delete(snapshot));
    return writing;
  }

  return {
    of(keyId, fan) {
      let snapshot = made.get(fan);
      if (snapshot === undefined) made.set(fan, (snapshot = snapshotOf(keyId, fan)));
      return snapshot;
    },
    async ready(wanted, again = false) {
      const checks: Change[] = [];
      for (const snapshot of wanted) {
        if (again) live.delete(snapshot);
        await ensure(snapshot);
        const { keyId, wide } = snapshot;
        checks.push({ op: "check", key: SNAPSHOT.key({ keyId, id: wide.snapshot }), if: liveText(wide.count) });
      }
      return checks;
    },
    forget(wanted) {
      for (const snapshot of wanted) live.delete(snapshot);
    },
  };
}

function snapshotOf(keyId: string, fan: Fanout): Snapshot {
  const pages = pagesOf(fan).map((page) => MEMBERS.write(page));
  return { keyId, fan, wide: { snapshot: snapshotId(pages), count: fan.ids.length } };
}

function pagesOf({ due, ordered = [], failed, ids }: Fanout): readonly (readonly FanoutMember[])[] {
  const byId = new Map<string, FanoutMember>();
  for (const { id, generation } of due) byId.set(id, { id, generation, disabled: false });
  for (const { id, generation } of ordered) byId.set(id, { id, generation, disabled: false, ordered: true });
  for (const sub of failed) {
    const { id, generation } = sub;
    byId.set(id, { id, generation, disabled: true, ...(isOutline(sub) && { disabledReason: "record_damaged" }) });
  }
  const pages: (readonly FanoutMember[])[] = [];
  for (let from = 0; from < ids.length; from += PAGE_MEMBERS) {
    pages.push(ids.slice(from, from + PAGE_MEMBERS).map((id) => byId.get(id) as FanoutMember));
  }
  return pages;
}

/** Returns how many members a snapshot has of which only the name is known. @throws StorageError `broken` when nobody knows */
export async function storedCount(storage: Pick<Storage, "getItem">, keyId: string, snapshot: string): Promise<number> {
  const count = countOf(await storage.getItem(SNAPSHOT.key({ keyId, id: snapshot })));
  if (count === undefined) throw new StorageError("broken", `the header of snapshot ${snapshot} is damaged`);
  return count;
}
