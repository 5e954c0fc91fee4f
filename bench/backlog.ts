// A million deliveries pending for one dead subscriber: what a start, another subscriber and publishing feel of it.
// Two relays, one on an empty store and one with the backlog, take turns in short rounds; the one whose turn it is not
// stands still. What the machine does beside falls on both, and the verdict is the median of the rounds' ratios.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { makeAuthority } from "../core/cli/support/certificates.ts";
import type { Storage } from "../core/ports/storage.ts";
import { redis } from "../plugins/storage/redis.ts";
import { sqlite } from "../plugins/storage/sqlite.ts";
import { fill } from "./backlog/fill.ts";
import { context, endServers, redisServer } from "./queue/surroundings.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { KEY_ID, nowMs } from "./throughput/event.ts";
import type { FromReceiver, PublishReply, PublishRequest } from "./throughput/messages.ts";
import { cpuMicroseconds, median, memoryOf, own, type Peer, start } from "./throughput/process.ts";
import { prepare, type RelayUnderTest, type RunningRelay } from "./throughput/relay.ts";

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
const CONNECTIONS = 64;
const DEAD_KEY = "key_dead";
/** Before each measured round: connections are made again, and what stood still has caught up. */
const WARM_S = 1;
/** What must be reached. */
const LIMITS = { rssMb: 300, startMs: 2_000, firstDeliveryMs: 5_000, ratio: 0.9 };
/** How long the started relay with the backlog rests before its memory is looked at, ms. */
const REST_MS = 5_000;
/** Redis takes minutes to be filled with a million. */
const LONGEST_S = 3_600;

interface World {
  readonly receiver: Peer;
  readonly publisher: Peer;
  readonly url: string;
  readonly ca: string;
}

/** A relay on a store of its own, with a subscriber that takes all and one where nobody listens. */
interface House {
  readonly relay: RelayUnderTest;
  readonly secret: string;
  running: RunningRelay;
  open(): Promise<Storage>;
}

async function house(world: World, folder: string): Promise<House> {
  await mkdir(folder);
  const url = onRedis ? await redisServer(folder, fsync) : undefined;
  const relay = await prepare({
    folder,
    ca: world.ca,
    connections: CONNECTIONS,
    storage: url === undefined ? "sqlite()" : `redis({ url: "${url}" })`,
    logLevel: "info",
    profile: options.profile,
  });
  const running = await relay.start();
  own(running.child);
  const secret = await relay.subscribe(KEY_ID, world.url);
  await relay.subscribe(DEAD_KEY, "https://127.0.0.1:9/dead");
  const plugin = url === undefined ? sqlite() : redis({ url });
  return { relay, secret, running, open: async () => plugin.setup(context(join(folder, "data"))) };
}

interface Speed {
  readonly perSecond: number;
  readonly cpuPerEvent: number;
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

/** Events published per second until the last one was delivered, while the other relay stands still. */
async function turn({ receiver, publisher }: World, { relay, secret, running }: House, other: House): Promise<Speed> {
  other.running.child.kill("SIGSTOP");
  running.child.kill("SIGCONT");
  await ready(relay.port);
  await receiver.ask({ kind: "secret", secret });
  const token = await relay.publishToken();
  const pass = async (forSeconds: number): Promise<{ readonly perSecond: number; readonly events: number }> => {
    await receiver.ask({ kind: "reset" });
    const request: PublishRequest = { port: relay.port, token, connections: CONNECTIONS, seconds: forSeconds };
    const { accepted, refused, from } = await publisher.ask<PublishReply>(request);
    if (refused > 0) throw new Error(`${refused} publications were refused`);
    const { at } = await receiver.ask<Extract<FromReceiver, { kind: "reached" }>>({ kind: "await", count: accepted });
    return { perSecond: (accepted / (at - from)) * 1_000, events: accepted };
  };
  await pass(WARM_S);
  const pid = running.child.pid as number;
  const cpu = await cpuMicroseconds(pid);
  const { perSecond, events } = await pass(seconds);
  return { perSecond, cpuPerEvent: ((await cpuMicroseconds(pid)) - cpu) / events };
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
  const authority = await makeAuthority(Date.now());
  const { cert, key } = await authority.issue(["127.0.0.1"]);
  const receiver = start("receiver.ts");
  const { port } = await receiver.ask<Extract<FromReceiver, { kind: "listening" }>>({ kind: "listen", cert, key });
  const url = `https://127.0.0.1:${port}/hook`;
  const world: World = { receiver, publisher: start("publisher.ts"), url, ca: authority.ca };
  const empty = await house(world, join(folder, "empty"));
  empty.running.child.kill("SIGSTOP");
  const full = await house(world, join(folder, "full"));
  await full.running.stop();

  say(`filling one with ${pending.toLocaleString("en")} pending deliveries …`);
  const storage = await full.open();
  const fillMs = await fill(storage, { dead: DEAD_KEY, live: KEY_ID, pending });
  await storage.dispose();
  say(`${round(fillMs / 1_000, 1)} s; a start …`);
  await receiver.ask({ kind: "secret", secret: full.secret });
  await receiver.ask({ kind: "reset" });
  const from = nowMs();
  const first = receiver.ask<Extract<FromReceiver, { kind: "reached" }>>({ kind: "await", count: 1 });
  full.running = await full.relay.start();
  own(full.running.child);
  const firstDeliveryMs = (await first).at - from;
  await new Promise((done) => setTimeout(done, REST_MS));
  const resting = await memoryOf(full.running.child.pid as number);
  // Both are watched: what the one without a backlog takes under the same load is no part of the backlog's.
  const [memory, memoryOfEmpty] = [watchMemory(full.running), watchMemory(empty.running)];

  const turns: { readonly empty: Speed; readonly full: Speed; readonly ratio: number }[] = [];
  for (let i = 0; i < rounds; i++) {
    // Who begins changes, so that a machine that grows slower favours nobody.
    const before = i % 2 === 0 ? await turn(world, empty, full) : undefined;
    const beside = await turn(world, full, empty);
    const alone = before ?? (await turn(world, empty, full));
    const ratio = beside.perSecond / alone.perSecond;
    say(`round ${i + 1}: ${round(alone.perSecond)}/s empty, ${round(beside.perSecond)}/s beside the backlog`);
    turns.push({ empty: alone, full: beside, ratio });
  }
  const { rss, anonymous } = memory();
  const emptyRss = memoryOfEmpty().rss;
  for (const { running } of [empty, full]) {
    running.child.kill("SIGCONT");
    await running.stop();
  }
  const looked = await full.open();
  const { usedBytes } = await looked.status();
  await looked.dispose();
  const ratios = turns.map(({ ratio }) => ratio);
  const ratio = median(ratios);
  const cpu = (of: "empty" | "full"): number => median(turns.map((one) => one[of].cpuPerEvent));
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
    emptyPerSecond: round(median(turns.map((one) => one.empty.perSecond))),
    backlogPerSecond: round(median(turns.map((one) => one.full.perSecond))),
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
