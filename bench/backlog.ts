// A million deliveries pending for one dead subscriber: what a start, another subscriber and publishing feel of it.
// Two relays, one on an empty store and one with the backlog, take turns in short rounds; the one whose turn it is not
// stands still. What the machine does beside falls on both, and the verdict is the median of the rounds' ratios.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Storage } from "../core/ports/storage.ts";
import { redis } from "../plugins/storage/redis.ts";
import { sqlite } from "../plugins/storage/sqlite.ts";
import { fill } from "./backlog/fill.ts";
import { context, endServers, redisServer } from "./queue/surroundings.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { KEY_ID, nowMs } from "./throughput/event.ts";
import type { FromReceiver } from "./throughput/messages.ts";
import { median, memoryOf } from "./throughput/process.ts";
import type { RunningRelay } from "./throughput/relay.ts";
import { pass, type Turn } from "./throughput/rounds.ts";
import { openWorld, type OpenWorld } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    storage: { type: "string", default: "sqlite" },
    /** Of a measured round. */
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "4" },
    pending: { type: "string", default: "1000000" },
    /** How the Redis syncs: before it answers (`always`), or `everysec`. */
    fsync: { type: "string", default: "always" },
    /** Folder for CPU profiles of the relay. */
    profile: { type: "string" },
  },
});
const seconds = within(options.seconds, 1, 60, 3);
const rounds = within(options.rounds, 1, 100, 4);
const pending = within(options.pending, 1, 10_000_000, 1_000_000);
const onRedis = options.storage === "redis";
const fsync = options.fsync === "everysec" ? "everysec" : "always";
if (!onRedis && options.storage !== "sqlite") {
  console.error("usage: npm run bench -- backlog [--storage sqlite|redis] [--pending N] [--seconds N] [--rounds N]");
  process.exit(64);
}
const DEAD_KEY = "key_dead";
/** Before each measured round: connections are made again, and what stood still has caught up. */
const WARM_S = 1;
/** Limits that must be reached. */
const LIMITS = { rssMb: 300, startMs: 2_000, firstDeliveryMs: 5_000, ratio: 0.9 };
/** How long the started relay with the backlog rests before its memory is looked at, ms. */
const REST_MS = 5_000;
/** Redis takes minutes to be filled with a million. */
const LONGEST_S = 3_600;

/** A relay on a store of its own, with a subscriber that takes all and one where nobody listens. */
interface House {
  readonly world: OpenWorld;
  open(): Promise<Storage>;
}

async function house(folder: string): Promise<House> {
  await mkdir(folder);
  const url = onRedis ? await redisServer(folder, fsync) : undefined;
  const storage = url === undefined ? "sqlite()" : `redis({ url: "${url}" })`;
  const world = await openWorld({ folder, storage, profile: options.profile });
  await world.relay.subscribe(DEAD_KEY, "https://127.0.0.1:9/dead");
  const plugin = url === undefined ? sqlite() : redis({ url });
  return { world, open: async () => plugin.setup(context(join(folder, "data"))) };
}

/** One that stood still may have lost its connection to the store: until it says for a while that it has one. */
async function ready(port: number): Promise<void> {
  for (let times = 0; times < 3;) {
    await new Promise((done) => setTimeout(done, 150));
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`);
    await answer.arrayBuffer();
    times = answer.status === 200 ? times + 1 : 0;
  }
}

/** Publishes until the last event was delivered, while the other relay stands still. */
async function turn(world: OpenWorld, other: OpenWorld): Promise<Turn> {
  other.running.child.kill("SIGSTOP");
  world.running.child.kill("SIGCONT");
  await ready(world.relay.port);
  await pass(world, world.running, WARM_S);
  return pass(world, world.running, seconds);
}

/** The most memory that a relay has used so far, looked at now and then. */
function watchMemory(running: RunningRelay): () => { readonly rss: number; readonly anonymous: number } {
  let most = { rss: 0, anonymous: 0 };
  const timer = setInterval(() => {
    memoryOf(running.child.pid as number).then(
      (now) => (most = { rss: Math.max(most.rss, now.rss), anonymous: Math.max(most.anonymous, now.anonymous) }),
      () => undefined,
    );
  }, 100);
  return () => {
    clearInterval(timer);
    return most;
  };
}

async function measure(folder: string) {
  const { world: empty } = await house(join(folder, "empty"));
  empty.running.child.kill("SIGSTOP");
  const { world: full, open } = await house(join(folder, "full"));
  await full.running.stop();

  say(`filling one with ${pending.toLocaleString("en")} pending deliveries …`);
  const storage = await open();
  const fillMs = await fill(storage, { dead: DEAD_KEY, live: KEY_ID, pending });
  await storage.dispose();
  say(`${round(fillMs / 1_000, 1)} s; a start …`);
  const from = nowMs();
  const first = full.receiver.ask<Extract<FromReceiver, { kind: "reached" }>>({ kind: "await", count: 1 });
  await full.restart();
  const firstDeliveryMs = (await first).at - from;
  await new Promise((done) => setTimeout(done, REST_MS));
  const resting = await memoryOf(full.running.child.pid as number);
  // Both are watched: what the one without a backlog takes under the same load is no part of the backlog's.
  const [memory, memoryOfEmpty] = [watchMemory(full.running), watchMemory(empty.running)];

  const turns: { readonly empty: Turn; readonly full: Turn; readonly ratio: number }[] = [];
  for (let i = 0; i < rounds; i++) {
    // Who begins changes, so that a machine that grows slower favours nobody.
    const before = i % 2 === 0 ? await turn(empty, full) : undefined;
    const beside = await turn(full, empty);
    const alone = before ?? (await turn(empty, full));
    const ratio = beside.eventsPerSecond / alone.eventsPerSecond;
    say(
      `round ${i + 1}: ${round(alone.eventsPerSecond)}/s empty, ${round(beside.eventsPerSecond)}/s beside the backlog`,
    );
    turns.push({ empty: alone, full: beside, ratio });
  }
  const { rss, anonymous } = memory();
  const emptyRss = memoryOfEmpty().rss;
  for (const world of [empty, full]) {
    world.running.child.kill("SIGCONT");
    await world.end();
  }
  const looked = await open();
  const { usedBytes } = await looked.status();
  await looked.dispose();
  const ratios = turns.map(({ ratio }) => ratio);
  const ratio = median(ratios);
  const cpu = (of: "empty" | "full"): number => median(turns.map((one) => one[of].cpu));
  return {
    storage: onRedis ? `redis, appendfsync ${fsync}` : "sqlite",
    pending,
    startMs: round(full.running.startMs),
    firstDeliveryMs: round(firstDeliveryMs),
    restingRssMb: round(resting.rss, 1),
    rssMb: round(rss, 1),
    emptyRssMb: round(emptyRss, 1),
    anonymousMb: round(anonymous, 1),
    ...(onRedis && { redisUsedMb: round(Number(usedBytes) / 1_048_576, 1) }),
    emptyPerSecond: round(median(turns.map((one) => one.empty.eventsPerSecond))),
    backlogPerSecond: round(median(turns.map((one) => one.full.eventsPerSecond))),
    emptyCpuMicroseconds: round(cpu("empty")),
    backlogCpuMicroseconds: round(cpu("full")),
    ratios: ratios.map((one) => round(one, 2)),
    ratio: round(ratio, 2),
    met:
      rss <= LIMITS.rssMb &&
      full.running.startMs <= LIMITS.startMs &&
      firstDeliveryMs <= LIMITS.firstDeliveryMs &&
      ratio >= LIMITS.ratio,
  };
}

await benchRun({
  longestS: LONGEST_S,
  json: options.json,
  measure,
  met: ({ met }) => met,
  print(result) {
    for (const [name, value] of Object.entries(result)) console.log(`${name.padEnd(22)}${String(value)}`);
  },
  end: endServers,
});
