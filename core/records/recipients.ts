/** Lists the subscriptions that an event goes to: its own list, or the snapshot that wide events share. */
import { createHash } from "node:crypto";
import { StorageError } from "../model/errors.ts";
import { deliveryCount, type RelayEvent, type Wide } from "../model/event.ts";
import { type FanoutMember, MEMBERS } from "../model/schema.ts";
import type { Storage } from "../ports/storage.ts";

/** A subscription that an event goes to. For an event with a list of its own, only the id is known. */
export type Recipient = Pick<FanoutMember, "id"> & Partial<FanoutMember>;

export const PAGE_MEMBERS = 250;
/** Most members held in memory, over all snapshots. */
const MEMBERS_HELD = 50_000;

/** Names a snapshot by its content: the same list has the same name on every node, and may be written twice. */
export const snapshotId = (pages: readonly string[]): string => {
  const hash = createHash("sha256");
  for (const page of pages) hash.update(page).update("\n");
  return hash.digest("hex").slice(0, 32);
};

type Listed = Pick<RelayEvent, "keyId" | "subscriptionIds" | "wide">;

export interface Recipients {
  /**
   * Returns part of the list, in order: the snapshot's members, then those that replays added.
   * @throws StorageError `broken` when the snapshot is missing or not as it was written
   */
  slice(event: Listed, from: number, limit: number): Promise<readonly Recipient[]>;
  /** Returns true when the event goes to this subscription. @throws StorageError */
  has(event: Listed, subscriptionId: string): Promise<boolean>;
  /** Returns the members of a snapshot. @throws StorageError */
  members(keyId: string, wide: Wide): Promise<readonly FanoutMember[]>;
}

/** @throws StorageError `broken` when these are not the pages that the snapshot is named after */
function membersOf(snapshot: string, pages: readonly string[]): readonly FanoutMember[] {
  if (snapshotId(pages) !== snapshot) throw new StorageError("broken", `snapshot ${snapshot} is damaged`);
  return pages.flatMap((page) => MEMBERS.orThrow(page));
}

interface Held {
  readonly members: Promise<readonly FanoutMember[]>;
  readonly count: number;
  ids?: ReadonlySet<string>;
}

/** Snapshots never change, so a cached one stays valid. */
export function createRecipients(storage: Pick<Storage, "getMany">): Recipients {
  const held = new Map<string, Held>();
  let total = 0;

  async function read(keyId: string, { snapshot, count }: Wide): Promise<readonly FanoutMember[]> {
    const pages = Math.ceil(count / PAGE_MEMBERS);
    const texts = await storage.getMany(
      Array.from({ length: pages }, (_, i) => MEMBERS.key({ keyId, id: snapshot, page: i })),
    );
    const there = texts.filter((text) => text !== undefined);
    if (there.length < pages) throw new StorageError("broken", `snapshot ${snapshot} is incomplete in storage`);
    return membersOf(snapshot, there);
  }

  function hold(keyId: string, wide: Wide): Held {
    const name = `${keyId} ${wide.snapshot}`;
    const known = held.get(name);
    if (known !== undefined) {
      held.delete(name);
      held.set(name, known);
      return known;
    }
    const members = read(keyId, wide).catch((error: unknown) => {
      if (held.get(name) === made) drop(name, made);
      throw error;
    });
    const made: Held = { members, count: wide.count };
    held.set(name, made);
    total += wide.count;
    for (const [oldest, one] of held) {
      if (total <= MEMBERS_HELD || one === made) break;
      drop(oldest, one);
    }
    return made;
  }

  function drop(name: string, one: Held): void {
    held.delete(name);
    total -= one.count;
  }

  return {
    members: (keyId, wide) => hold(keyId, wide).members,
    async slice(event, from, limit) {
      const { keyId, subscriptionIds, wide } = event;
      const own = (start: number, end: number) => subscriptionIds.slice(start, end).map((id) => ({ id }));
      if (wide === undefined) return own(from, from + limit);
      const later = own(Math.max(0, from - wide.count), Math.max(0, from + limit - wide.count));
      if (from >= wide.count) return later;
      const first = await hold(keyId, wide).members;
      return [...first.slice(from, from + limit), ...later];
    },
    async has({ keyId, subscriptionIds, wide }, id) {
      if (subscriptionIds.includes(id)) return true;
      if (wide === undefined) return false;
      const now = hold(keyId, wide);
      const list = await now.members;
      now.ids ??= new Set(list.map((member) => member.id));
      return now.ids.has(id);
    },
  };
}

/** Yields every recipient of an event, in pages. @throws StorageError */
export async function* everyRecipient(
  recipients: Pick<Recipients, "slice">,
  event: Listed,
  limit = PAGE_MEMBERS,
): AsyncGenerator<readonly Recipient[]> {
  for (let from = 0; from < deliveryCount(event); from += limit) yield await recipients.slice(event, from, limit);
}
