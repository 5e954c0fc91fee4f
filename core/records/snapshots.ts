/**
 * Snapshots: the list of subscriptions that a wide event goes to, written before the event and shared by all events that
 * go to the same list. So an event's commit does not grow with its subscribers, and what changes after it changes nothing.
 *
 * A header says whether the list is whole: `writing`, then `live <count>`. An event is stored on condition that its
 * snapshot is live. Retention turns the header of one that no event uses to `closing <nonce>`, so that none can begin to
 * use it; the next run removes it. Who wants it meanwhile writes it again.
 */
import { ConflictError, StorageError } from "../model/errors.ts";
import type { Wide } from "../model/event.ts";
import { membersKey, snapshotKey } from "../model/keys.ts";
import type { Change, Storage } from "../ports/storage.ts";
import type { Subscription } from "../model/subscription.ts";
import { encodeMembers, PAGE_MEMBERS, snapshotId, type FanoutMember } from "./recipients.ts";

const WRITING = "writing";
const liveText = (count: number): string => `live ${count}`;
export const isLiveText = (text: string): boolean => text.startsWith("live ");
/** Pages of one commit. */
const PAGES_AT_ONCE = 8;
/** How often a writer that lost against another writer, or against retention, begins again. */
const TRIES = 16;

/** What an event goes to. */
export interface Fanout {
  /** Active ones that want it: a delivery each, due at once. */
  readonly due: readonly Subscription[];
  /** Disabled ones that want it: a delivery each that has failed already, kept for replay. */
  readonly failed: readonly Subscription[];
  /** Ids of both, in the order of the subscriptions. */
  readonly ids: readonly string[];
}

/** A list that is to be there before an event that goes to it. */
export interface Snapshot {
  readonly keyId: string;
  readonly wide: Wide;
  readonly fan: Fanout;
}

export interface Snapshots {
  /** The snapshot of a fan-out; it may not be stored yet. The same object for the same fan-out. */
  of(keyId: string, fan: Fanout): Snapshot;
  /**
   * Stores them unless they are there.
   * @param look reads whether they still are, though they were there before
   * @returns what the commit of the events is to be conditional on
   * @throws StorageError
   */
  ready(wanted: Iterable<Snapshot>, look?: boolean): Promise<readonly Change[]>;
  /** A commit that was conditional on them was refused: they may be gone. */
  forget(wanted: Iterable<Snapshot>): void;
}

export function createSnapshots(storage: Pick<Storage, "commit" | "getItem">): Snapshots {
  const made = new WeakMap<Fanout, Snapshot>();
  /** Seen live, by the object: it lives as long as the list of subscriptions in memory. */
  const live = new WeakMap<Snapshot, Promise<void>>();

  async function write(snapshot: Snapshot): Promise<void> {
    const { keyId, wide, fan } = snapshot;
    const { snapshot: id, count } = wide;
    const pages = pagesOf(fan);
    const key = snapshotKey(keyId, id);
    for (let tries = 0; tries < TRIES; tries++) {
      const text = await storage.getItem(key);
      if (text === liveText(count)) return;
      try {
        // What retention has begun to remove may be there in part: it is written again as a whole.
        if (text !== WRITING) await storage.commit([{ op: "put", key, value: WRITING, if: text ?? null }]);
        for (let from = 0; from < pages.length; from += PAGES_AT_ONCE) {
          const rows = pages.slice(from, from + PAGES_AT_ONCE);
          await storage.commit([
            { op: "check", key, if: WRITING },
            ...rows.map((value, i) => ({ op: "put", key: membersKey(keyId, id, from + i), value }) as const),
          ]);
        }
        await storage.commit([{ op: "put", key, value: liveText(count), if: WRITING }]);
        return;
      } catch (error) {
        // Another node has finished the same list, or is about to: what it writes is what we write.
        if (!(error instanceof ConflictError)) throw error;
      }
    }
    throw new StorageError("unavailable", "the list of subscriptions is being changed by too many at once");
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
    async ready(wanted, look = false) {
      const checks: Change[] = [];
      for (const snapshot of wanted) {
        if (look) live.delete(snapshot);
        await ensure(snapshot);
        const { keyId, wide } = snapshot;
        checks.push({ op: "check", key: snapshotKey(keyId, wide.snapshot), if: liveText(wide.count) });
      }
      return checks;
    },
    forget(wanted) {
      for (const snapshot of wanted) live.delete(snapshot);
    },
  };
}

function snapshotOf(keyId: string, fan: Fanout): Snapshot {
  return { keyId, fan, wide: { snapshot: snapshotId(pagesOf(fan)), count: fan.ids.length } };
}

function pagesOf({ due, failed, ids }: Fanout): readonly string[] {
  const byId = new Map<string, FanoutMember>();
  for (const { id, generation } of due) byId.set(id, { id, generation, disabled: false });
  for (const { id, generation } of failed) byId.set(id, { id, generation, disabled: true });
  const pages: string[] = [];
  for (let from = 0; from < ids.length; from += PAGE_MEMBERS) {
    pages.push(encodeMembers(ids.slice(from, from + PAGE_MEMBERS).map((id) => byId.get(id) as FanoutMember)));
  }
  return pages;
}
