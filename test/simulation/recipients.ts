/** Who an event goes to, as its records say: its own list, or the members of its snapshot and those that replays added. */
import type { RelayEvent } from "../../core/model/event.ts";
import { isFanoutQueue, MEMBERS, SNAPSHOT, DUE } from "../../core/model/schema.ts";
import { PAGE_MEMBERS } from "../../core/records/recipients.ts";
import type { SortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { fail } from "./violation.ts";

type Listed = Pick<RelayEvent, "id" | "keyId" | "subscriptionIds" | "wide">;

export function recipientsOf(rows: SortedMap, { id, keyId, subscriptionIds, wide }: Listed): readonly string[] {
  if (wide === undefined) return subscriptionIds;
  const { snapshot, count } = wide;
  const header = rows.get(SNAPSHOT.key({ keyId, id: snapshot }));
  if (header !== `live ${count}`) fail(`${id} is stored, but its snapshot is ${header}`);
  const members: string[] = [];
  for (let page = 0; page * PAGE_MEMBERS < count; page++) {
    const text =
      rows.get(MEMBERS.key({ keyId, id: snapshot, page })) ?? fail(`${id}: page ${page} of its snapshot is missing`);
    members.push(...MEMBERS.orThrow(text).map((member) => member.id));
  }
  if (members.length !== count) fail(`${id} counts ${count} members, its snapshot has ${members.length}`);
  return [...members, ...subscriptionIds];
}

/** How many deliveries of each event are written, for the events that still have a line in a fan-out queue. */
export function writtenSoFar(rows: SortedMap): ReadonlyMap<string, number> {
  const written = new Map<string, number>();
  for (const { key, value } of rows.range("due:", { limit: 1_000_000 })) {
    const { subscriptionId, keyId, ordinal, attempts } = DUE.orThrow(value, key);
    if (!isFanoutQueue(subscriptionId)) continue;
    const name = `${keyId} ${ordinal}`;
    if (written.has(name)) fail(`${name} has two lines in its fan-out queue`);
    written.set(name, attempts);
  }
  return written;
}
