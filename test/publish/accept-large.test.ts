// Many publishers with the largest batches at once, on every storage: what is accepted is all there.
import { afterAll, describe, expect, it } from "vitest";
import { createSubscriptionCache } from "../../core/records/subscription-cache.ts";
import { FANOUT_BOUNDS } from "../../core/publish/write-event.ts";
import { createPublisher } from "../../core/publish/accept.ts";
import { EVENT, SUBSCRIPTION } from "../../core/model/schema.ts";
import { Problem } from "../../core/model/problem.ts";
import type { Accepted } from "../../core/ports/source.ts";
import type { Change, Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import type { TestClock } from "../support/clock.ts";
import { paid, publish, subscription } from "../support/intake.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { everyStorage } from "../support/storages.ts";

/** Enough for them to wait longer for each other than a call to Redis may take; the law of storages has sixteen. */
const PUBLISHERS = 5;
const EVENTS = 1_000;
const clock = systemClock();

/** Publishes on `subscriptions` of each publisher's key; how many were accepted, all of them being whole. */
async function published(storage: Storage, subscriptions: number): Promise<number> {
  const subs = Array.from({ length: PUBLISHERS }, (_, n) =>
    Array.from({ length: subscriptions }, (_, i) =>
      subscription(`${n}x${String(i).padStart(20, "0")}`, { keyId: `key_${n}` }),
    ),
  );
  await storage.commit(
    subs.flat().map((sub): Change => ({ op: "put", key: SUBSCRIPTION.key(sub), value: JSON.stringify(sub) })),
  );
  using directory = createSubscriptionCache(storage);
  // All in one commit, as large as it gets: here the storages are tried, not what keeps commits small.
  const fanout = { ...FANOUT_BOUNDS, perCommit: Number.POSITIVE_INFINITY };
  const intake = createPublisher({
    storage,
    handOver: { offer: (_, dues) => storage.queue.add(dues) },
    subscriptionCache: directory,
    clock,
    fanout,
    maxPending: 0,
    log: quietLog(),
    metrics: quietMetrics(),
  });
  const ends = await Promise.all(
    subs.map((_, n) =>
      intake
        .accept(publish(Array.from({ length: EVENTS }, (_, i) => paid({ keyId: `key_${n}`, id: `own-${i}` }))))
        .catch((error: unknown) => error),
    ),
  );
  let accepted = 0;
  for (const [n, end] of ends.entries()) {
    if (!(end instanceof Problem)) {
      expect((end as Accepted[]).every(({ deliveries }) => deliveries === subscriptions)).toBe(true);
      accepted++;
    }
    const wanted = end instanceof Problem ? 0 : EVENTS;
    expect(await storage.getKeys(EVENT.key({ keyId: `key_${n}`, ordinal: "" }), {})).toHaveLength(wanted);
    for (const { id } of subs[n] ?? []) expect(await storage.getKeys(`due:${id}:`, {})).toHaveLength(wanted);
  }
  return accepted;
}

const STORAGES = everyStorage().filter(({ name }) => !name.includes("unstorage"));

describe.each(STORAGES)(
  "several publishers with a thousand events each at once, on $name",
  ({ name, open, close, missing }) => {
    afterAll(close);

    it.skipIf(missing)("are all accepted with all their deliveries", { timeout: 600_000 }, async () => {
      const { storage } = await open(clock as TestClock);
      try {
        // A file a delivery, so fewer of them.
        expect(await published(storage, name === "filesystem()" ? 1 : 20)).toBe(PUBLISHERS);
      } finally {
        await storage.dispose();
      }
    });
  },
);
