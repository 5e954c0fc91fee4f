/** Fills a store as intake would have, as fast as its disk takes it. */
import { nothingWritten, writeEvent } from "../../core/publish/write-event.ts";
import { liveOf } from "../../core/records/subscription-cache.ts";
import { fanout } from "../../core/publish/fanout.ts";
import { ordinals, ordinalTime } from "../../core/model/ids.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { nowMs, publication } from "../throughput/event.ts";

/** The backlog came over so long. */
const SPREAD_MS = 3_600_000;
const BATCH = 1_000;

export interface Filling {
  /** Key whose only subscriber is dead: its deliveries are what is pending. */
  readonly dead: string;
  /** Key of the other subscriber: one event, the last of all. */
  readonly live: string;
  readonly pending: number;
}

/** @returns how long it took, ms */
export async function fill(storage: Storage, { dead, live, pending }: Filling): Promise<number> {
  const began = nowMs();
  const [deaf] = await liveOf(storage, dead);
  const [well] = await liveOf(storage, live);
  if (deaf === undefined || well === undefined) throw new Error("a subscription is not there");
  const first = Date.now() - SPREAD_MS;
  let made = 0;
  const mint = ordinals(() => first + Math.floor((made / pending) * SPREAD_MS));
  const { data } = JSON.parse(publication()) as { readonly data: unknown };
  const text = JSON.stringify(data);

  function write(to: Subscription, writing: ReturnType<typeof nothingWritten>): void {
    const ordinal = mint();
    const at = ordinalTime(ordinal);
    const { keyId } = to;
    const event = { id: `evt_${ordinal}`, type: "bench:event", keyId, ordinal, createdAt: at, acceptedAt: at };
    writeEvent(writing, { ...event, data: text }, fanout("bench:event", [to]));
  }

  while (made < pending) {
    const writing = nothingWritten();
    for (let i = 0; i < BATCH && made < pending; i++, made++) write(deaf, writing);
    await storage.commit(writing.changes);
  }
  const last = nothingWritten();
  write(well, last);
  await storage.commit(last.changes);
  return nowMs() - began;
}
