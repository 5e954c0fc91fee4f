// Many publishers with the largest batches at once, on every storage: what is accepted is all there.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createSubscriptionCache } from "../../core/records/subscription-cache.ts";
import { FANOUT_BOUNDS } from "../../core/publish/write-event.ts";
import { createPublisher } from "../../core/publish/accept.ts";
import { EVENT, SUBSCRIPTION } from "../../core/model/schema.ts";
import { Problem } from "../../core/model/problem.ts";
import type { Accepted } from "../../core/ports/source.ts";
import type { Change, Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { redis } from "../../plugins/storage/redis.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { paid, publish, subscription } from "../support/intake.ts";
import { needs } from "../support/needs.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { startRedis } from "../support/redis.ts";

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

describe("several publishers with a thousand events each at once", { timeout: 600_000 }, () => {
  it("are all accepted with all their deliveries: memory()", async () => {
    await using storage = disposable(await memory().setup(pluginContext(clock, "/nonexistent")));
    expect(await published(storage.it, 20)).toBe(PUBLISHERS);
  });

  it("are all accepted with all their deliveries: sqlite()", async () => {
    await using folder = await temporary();
    await using storage = disposable(await sqlite({ dir: folder.dir }).setup(pluginContext(clock, folder.dir)));
    expect(await published(storage.it, 20)).toBe(PUBLISHERS);
  });

  it("are all accepted with all their deliveries: filesystem(), a file a delivery, so fewer of them", async () => {
    await using folder = await temporary();
    await using storage = disposable(await filesystem({ dir: folder.dir }).setup(pluginContext(clock, folder.dir)));
    expect(await published(storage.it, 1)).toBe(PUBLISHERS);
  });

  const missing = needs("redis");
  it.skipIf(missing !== undefined)(`are all accepted with all their deliveries: redis()`, async () => {
    await using server = await startRedis();
    await using storage = disposable(await redis({ url: server.url }).setup(pluginContext(clock, "/nonexistent")));
    expect(await published(storage.it, 20)).toBe(PUBLISHERS);
  });
});

const disposable = (it: Storage): { readonly it: Storage } & AsyncDisposable => ({
  it,
  [Symbol.asyncDispose]: () => it.dispose(),
});

async function temporary(): Promise<{ readonly dir: string } & AsyncDisposable> {
  const dir = await mkdtemp(join(tmpdir(), "relay-large-"));
  return { dir, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) };
}
