// A million deliveries pending for one dead subscriber: what a start, another subscriber and publishing feel of it.
// Measured beside an empty store in the same run, and beside the raw loop, since the machine may be busy with more.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { makeAuthority } from "../core/cli/certificates.ts";
import { nothingWritten, writeEvent } from "../core/flow/draft.ts";
import { fanout } from "../core/flow/fanout.ts";
import { liveOf } from "../core/flow/directory.ts";
import { ordinals, ordinalTime } from "../core/model/ids.ts";
import type { Subscription } from "../core/model/subscription.ts";
import { systemClock } from "../core/runtime/clock.ts";
import { nullMetrics } from "../core/runtime/observers/metrics.ts";
import { sqlite } from "../plugins/storage/sqlite.ts";
import { KEY_ID, nowMs, publication } from "./throughput/event.ts";
import type { FromReceiver, LoopReply, LoopRequest, PublishReply, PublishRequest } from "./throughput/messages.ts";
import { cpuMicroseconds, endAll, memoryOf, own, type Peer, start } from "./throughput/process.ts";
import { prepare, type RelayUnderTest, type RunningRelay } from "./throughput/relay.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    seconds: { type: "string", default: "6" },
    pending: { type: "string", default: "1000000" },
    /** Folder for CPU profiles of the relay. */
    profile: { type: "string" },
  },
});
const seconds = Math.min(Math.max(Number(options.seconds) || 6, 1), 60);
const pending = Math.min(Math.max(Number(options.pending) || 1_000_000, 1), 10_000_000);
const CONNECTIONS = 64;
const DEAD_KEY = "key_dead";
/** The backlog came over so long. */
const SPREAD_MS = 3_600_000;
const BATCH = 1_000;
/** What must be reached. */
const LIMITS = { rssMb: 400, firstDeliveryMs: 5_000, ratio: 0.8 };

const say = (text: string): void => void process.stderr.write(`${text}\n`);
const round = (value: number, digits = 0): number => Number(value.toFixed(digits));

interface World {
  readonly receiver: Peer;
  readonly publisher: Peer;
  readonly loop: Peer;
  readonly relay: RelayUnderTest;
  readonly raw: Omit<LoopRequest, "seconds">;
}

/** Events published per second, until the last one was delivered, and what the raw loop did right before and after. */
async function speed(world: World, pid: number) {
  const { receiver, publisher, relay } = world;
  const rawLoop = async (): Promise<number> => {
    await receiver.ask({ kind: "reset" });
    const { requests, ms } = await world.loop.ask<LoopReply>({ ...world.raw, seconds: 2 });
    return (requests / ms) * 1_000;
  };
  const pass = async (forSeconds: number): Promise<{ readonly perSecond: number; readonly events: number }> => {
    await receiver.ask({ kind: "reset" });
    const token = await relay.publishToken();
    const request: PublishRequest = { port: relay.port, token, connections: CONNECTIONS, seconds: forSeconds };
    const { accepted, refused, from } = await publisher.ask<PublishReply>(request);
    if (refused > 0) throw new Error(`${refused} publications were refused`);
    const { at } = await receiver.ask<Extract<FromReceiver, { kind: "reached" }>>({ kind: "await", count: accepted });
    return { perSecond: (accepted / (at - from)) * 1_000, events: accepted };
  };
  await pass(2);
  const before = await rawLoop();
  const cpu = await cpuMicroseconds(pid);
  const { perSecond, events } = await pass(seconds);
  const cpuPerEvent = ((await cpuMicroseconds(pid)) - cpu) / events;
  return { perSecond, cpuPerEvent, raw: (before + (await rawLoop())) / 2 };
}

/** Fills the store as intake would have: events for the dead subscriber, and at their end one for the other. */
async function fill(folder: string): Promise<number> {
  const clock = systemClock();
  const quiet = { debug() {}, info() {}, warn() {}, error() {} };
  const dataDir = join(folder, "data");
  const context = { clock, log: quiet, metrics: nullMetrics, dataDir, configDir: folder };
  const storage = await sqlite().setup(context as never);
  const began = nowMs();
  try {
    const [dead] = await liveOf(storage, DEAD_KEY);
    const [live] = await liveOf(storage, KEY_ID);
    if (dead === undefined || live === undefined) throw new Error("a subscription is not there");
    const first = clock.now() - SPREAD_MS;
    let made = 0;
    const mint = ordinals(() => first + Math.floor((made / pending) * SPREAD_MS));
    const write = (to: Subscription, writing = nothingWritten()): ReturnType<typeof nothingWritten> => {
      const ordinal = mint();
      const at = ordinalTime(ordinal);
      const { data } = JSON.parse(publication()) as { readonly data: unknown };
      const event = {
        id: `evt_${ordinal}`,
        type: "bench:event",
        keyId: to.keyId,
        ordinal,
        createdAt: at,
        acceptedAt: at,
      };
      writeEvent(writing, { ...event, data: JSON.stringify(data) }, fanout("bench:event", [to]));
      return writing;
    };
    while (made < pending) {
      const writing = nothingWritten();
      for (let i = 0; i < BATCH && made < pending; i++, made++) write(dead, writing);
      await storage.commit(writing.changes);
    }
    await storage.commit(write(live).changes);
    return nowMs() - began;
  } finally {
    await storage.dispose();
  }
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
  const settings = {
    folder,
    ca: authority.ca,
    connections: CONNECTIONS,
    storage: "sqlite()",
    logLevel: "info",
    profile: options.profile,
  };
  const relay = await prepare(settings);
  let running = await relay.start();
  own(running.child);
  const secret = await relay.subscribe(KEY_ID, url);
  // Nobody listens there.
  await relay.subscribe(DEAD_KEY, "https://127.0.0.1:9/dead");
  await receiver.ask({ kind: "secret", secret });
  const raw = { url, ca: authority.ca, secret, connections: CONNECTIONS };
  const world: World = { receiver, publisher: start("publisher.ts"), loop: start("loop.ts"), relay, raw };

  say("an empty store …");
  const empty = await speed(world, running.child.pid as number);
  await running.stop();
  say(`filling it with ${pending.toLocaleString("en")} pending deliveries …`);
  const fillMs = await fill(folder);
  say(`${round(fillMs / 1_000, 1)} s; a start …`);
  await receiver.ask({ kind: "reset" });
  const from = nowMs();
  const first = receiver.ask<Extract<FromReceiver, { kind: "reached" }>>({ kind: "await", count: 1 });
  running = await relay.start();
  own(running.child);
  const memory = watchMemory(running);
  const firstDeliveryMs = (await first).at - from;
  say("publishing beside the backlog …");
  const full = await speed(world, running.child.pid as number);
  const { rss, anonymous } = memory();
  await running.stop();
  const ratio = full.perSecond / empty.perSecond;
  const steadied = full.perSecond / full.raw / (empty.perSecond / empty.raw);
  return {
    pending,
    startMs: round(running.startMs),
    firstDeliveryMs: round(firstDeliveryMs),
    rssMb: round(rss, 1),
    anonymousMb: round(anonymous, 1),
    emptyPerSecond: round(empty.perSecond),
    backlogPerSecond: round(full.perSecond),
    emptyCpuMicroseconds: round(empty.cpuPerEvent),
    backlogCpuMicroseconds: round(full.cpuPerEvent),
    ratio: round(ratio, 2),
    ratioBesideRawLoop: round(steadied, 2),
    ratioByCpu: round(empty.cpuPerEvent / full.cpuPerEvent, 2),
    met: rss <= LIMITS.rssMb && firstDeliveryMs <= LIMITS.firstDeliveryMs && Math.max(ratio, steadied) >= LIMITS.ratio,
  };
}

const folder = await mkdtemp(join(tmpdir(), "relay-bench-"));
let met = false;
try {
  const result = await measure(folder);
  met = result.met;
  if (options.json) console.log(JSON.stringify(result));
  else for (const [name, value] of Object.entries(result)) console.log(`${name.padEnd(22)}${String(value)}`);
} catch (error) {
  console.error(error);
} finally {
  endAll();
  await rm(folder, { recursive: true, force: true });
}
process.exit(met ? 0 : 1);
