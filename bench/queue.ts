/**
 * The storages by themselves: commits and claims a second, `node bench/queue.ts [seconds] [storage…]`.
 *
 * Why the queue on Redis is sorted sets with a batch claim in Lua, and not BullMQ (both measured on two cores, Redis on
 * the same machine): BullMQ 6 adds 41,000 and works 17,000 jobs/s at 35 µs of CPU a job; a bare sorted set with a batch
 * claim does 230,000 claims/s. And a job of BullMQ cannot be written in one step with our records.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import memoryDriver from "unstorage/drivers/memory";
import { DUE } from "../core/model/schema.ts";
import type { Due } from "../core/model/delivery.ts";
import { ordinals } from "../core/model/ids.ts";
import type { Plugin } from "../core/ports/plugin.ts";
import type { Storage } from "../core/ports/storage.ts";
import { systemClock } from "../core/runtime/clock.ts";
import { filesystem } from "../plugins/storage/filesystem.ts";
import { memory } from "../plugins/storage/memory.ts";
import { redis } from "../plugins/storage/redis.ts";
import { sqlite } from "../plugins/storage/sqlite.ts";
import { unstorage } from "../plugins/storage/unstorage.ts";
import { context, endServers, redisServer } from "./queue/surroundings.ts";

const WRITERS = 64;
const BATCH = 64;
const SUBSCRIPTIONS = 50;
const BODY = JSON.stringify({ id: "evt", data: "x".repeat(560) });
const clock = systemClock();

interface Figures {
  readonly storage: string;
  readonly durability: string;
  readonly "accepts/s": number;
  readonly "claims/s": number;
  readonly "settles/s": number;
}

async function measure(
  name: string,
  plugin: Plugin<"storage", Storage>,
  dir: string,
  seconds: number,
): Promise<Figures> {
  const storage = await plugin.setup(context(dir));
  const mint = ordinals(clock.now);
  const until = clock.monotonic() + seconds * 1_000;
  const began = clock.monotonic();
  let accepted = 0;
  const accept = async (): Promise<void> => {
    while (clock.monotonic() < until) {
      const ordinal = mint();
      const due: Due = {
        subscriptionId: `sub_${accepted % SUBSCRIPTIONS}`,
        keyId: "key_1",
        ordinal,
        dueAt: clock.now(),
        generation: 0,
        cycle: 0,
        attempts: 0,
      };
      await storage.commit([
        { op: "put", key: `event:key_1:${ordinal}`, value: `{"id":"evt"}\n${BODY}` },
        { op: "put", key: DUE.key(due), value: DUE.write(due) },
      ]);
      storage.queue.add([due]);
      accepted++;
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, accept));
  const acceptS = (clock.monotonic() - began) / 1_000;

  let [claimed, claimMs, settleMs] = [0, 0, 0];
  for (;;) {
    const start = clock.monotonic();
    const leases = await storage.queue.claim({ limit: BATCH, perSubscription: BATCH, busy: new Map() });
    const middle = clock.monotonic();
    if (leases.length === 0 && (await storage.queue.sweep()) === 0) break;
    await Promise.all(
      leases.map((lease) =>
        storage.queue.settle(lease, [
          { op: "delete", key: DUE.key(lease) },
          { op: "put", key: `delivery:${lease.subscriptionId}:${lease.ordinal}`, value: '{"status":"delivered"}' },
        ]),
      ),
    );
    claimed += leases.length;
    claimMs += middle - start;
    settleMs += clock.monotonic() - middle;
  }
  const { durability } = storage;
  await storage.dispose();
  if (claimed !== accepted) throw new Error(`${name}: ${accepted} accepted, ${claimed} claimed`);
  const each = (count: number, ms: number): number => Math.round((count / ms) * 1_000);
  return {
    storage: name,
    durability,
    "accepts/s": Math.round(accepted / acceptS),
    "claims/s": each(claimed, claimMs),
    "settles/s": each(claimed, settleMs),
  };
}

const { positionals } = parseArgs({ allowPositionals: true });
const [seconds = "3", ...wanted] = positionals;
const dir = await mkdtemp(join(tmpdir(), "relay-bench-"));
const storages: Readonly<Record<string, () => Promise<Plugin<"storage", Storage>>>> = {
  memory: async () => memory(),
  sqlite: async () => sqlite({ dir: join(dir, "sqlite") }),
  filesystem: async () => filesystem({ dir: join(dir, "files") }),
  "redis everysec": async () => redis({ url: await redisServer(dir, "everysec") }),
  "redis always": async () => redis({ url: await redisServer(dir, "always") }),
  "unstorage memory": async () => unstorage(memoryDriver()),
};
try {
  const rows: Figures[] = [];
  for (const [name, make] of Object.entries(storages)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    rows.push(await measure(name, await make(), dir, Number(seconds)));
  }
  console.table(rows);
} finally {
  await endServers();
  await rm(dir, { recursive: true, force: true });
}
