/** Fills a store with events that were delivered two days ago, as a relay would have left them; and counts what is left of them. */
import { nothingWritten, writeEvent } from "../../core/publish/write-event.ts";
import { liveOf } from "../../core/records/subscription-cache.ts";
import { fanout } from "../../core/publish/fanout.ts";
import { putDelivery } from "../../core/records/delivery-records.ts";
import { ordinalFloor, ordinals, ordinalTime } from "../../core/model/ids.ts";
import { API_KEY, EVENT } from "../../core/model/schema.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { publication } from "../throughput/event.ts";

const AGE_MS = 2 * 86_400_000;
const SPREAD_MS = 3_600_000;
const BATCH = 1_000;

/**
 * @param count how many events the key gets
 * @param age when the first was published, before now, and within what time they were
 */
export async function fill(
  storage: Storage,
  keyId: string,
  count: number,
  age = { ms: AGE_MS, spreadMs: SPREAD_MS },
): Promise<void> {
  const [sub] = await liveOf(storage, keyId);
  if (sub === undefined) throw new Error("there is no subscription");
  const first = Date.now() - age.ms;
  let made = 0;
  const mint = ordinals(() => first + Math.floor((made / count) * age.spreadMs));
  const { data } = JSON.parse(publication()) as { readonly data: unknown };
  const text = JSON.stringify(data);
  await storage.commit([{ op: "put", key: API_KEY.key({ keyId }), value: String(first) }]);
  while (made < count) {
    const changes = [];
    for (let i = 0; i < BATCH && made < count; i++, made++) {
      const writing = nothingWritten();
      const ordinal = mint();
      const at = ordinalTime(ordinal);
      const id = `old:${made}`;
      const event = { id, type: "bench:event", keyId, ordinal, createdAt: at, acceptedAt: at };
      writeEvent(writing, { ...event, data: text }, fanout("bench:event", [sub]));
      const [due] = writing.dues;
      if (due === undefined) throw new Error("the event has no delivery");
      const attempt = { cycle: 0, number: 1, startedAt: at, durationMs: 5, statusCode: 200 };
      const { subscriptionId, generation, cycle } = due;
      const ended = { status: "delivered", cycle, generation, attempts: [attempt], updatedAt: at } as const;
      const record = putDelivery({ keyId, eventId: id, ordinal, subscriptionId, ...ended });
      changes.push(...writing.changes.filter(({ key }) => !key.startsWith("due:")));
      if (record !== undefined) changes.push(record);
    }
    await storage.commit(changes);
  }
}

/** How many of them are still there. */
export async function leftOf(storage: Storage, keyId: string): Promise<number> {
  const end = EVENT.key({ keyId, ordinal: ordinalFloor(Date.now() - AGE_MS + SPREAD_MS) });
  let left = 0;
  for (let after: string | undefined; ;) {
    const page = await storage.range(EVENT.under({ keyId }), { after, limit: 1_000 });
    left += page.filter(({ key }) => key < end).length;
    after = page.at(-1)?.key;
    if (page.length < 1_000 || (after ?? "") >= end) return left;
  }
}
