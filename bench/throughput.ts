// The main job measured beside the raw loop, in one run: publish over HTTP, store with fsync, sign, deliver over TLS, check.
// Every process is real and of its own; all of them share the machine's cores.
import { mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { makeAuthority } from "../core/cli/certificates.ts";
import { KEY_ID, publication } from "./throughput/event.ts";
import type { FromReceiver, LoopReply, LoopRequest, PublishReply, PublishRequest } from "./throughput/messages.ts";
import { cpuMicroseconds, endAll, memoryOf, own, type Peer, percentile, start } from "./throughput/process.ts";
import { prepare, type RelayUnderTest, type RunningRelay } from "./throughput/relay.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** How long is published at full speed; the rest of the run is in proportion. */
    seconds: { type: "string", default: "8" },
    connections: { type: "string", default: "64" },
    storage: { type: "string", default: "sqlite()" },
    log: { type: "string", default: "info" },
    /** Folder for CPU profiles of the relay. */
    profile: { type: "string" },
  },
});
const seconds = Math.min(Math.max(Number(options.seconds) || 8, 1), 120);
const connections = Math.min(Math.max(Number(options.connections) || 64, 1), 512);
const STEADY = 1_000;
/** The relay is measured as it runs for months: until then V8 is still compiling what is hot. */
const WARM_SECONDS = 20;

type Figures = Extract<FromReceiver, { kind: "figures" }>;
const round = (value: number, digits = 1): number => Number(value.toFixed(digits));
const say = (text: string): void => void process.stderr.write(`${text}\n`);

interface World {
  readonly receiver: Peer;
  readonly loop: Peer;
  readonly publisher: Peer;
  readonly relay: RelayUnderTest;
  readonly url: string;
  readonly ca: string;
  readonly secret: string;
}

/** The raw loop: requests per second, and CPU of its process per request. */
async function rawLoop({ receiver, loop, url, ca, secret }: World, forSeconds: number) {
  await receiver.ask({ kind: "reset" });
  const request: LoopRequest = { url, ca, secret, connections, seconds: forSeconds };
  const reply = await loop.ask<LoopReply>(request);
  const seen = await receiver.ask<Figures>({ kind: "read" });
  if (seen.bad > 0 || seen.good !== reply.requests) throw new Error(`the raw loop went wrong: ${seen.bad} bad`);
  return { perSecond: (reply.requests / reply.ms) * 1_000, cpu: reply.cpuMicroseconds / reply.requests };
}

interface Passed {
  readonly events: number;
  /** From the first publication until the last delivery. */
  readonly ms: number;
  readonly publishMs: number;
  readonly cpuPerEvent: number;
  readonly figures: Figures;
}

/** Publishes, waits until everything has arrived, and checks that it did so once and whole. */
async function pass(world: World, running: RunningRelay, forSeconds: number, rate?: number): Promise<Passed> {
  const { receiver, publisher, relay } = world;
  const pid = running.child.pid as number;
  await receiver.ask({ kind: "reset" });
  const cpu = await cpuMicroseconds(pid);
  const token = await relay.publishToken();
  const request: PublishRequest = { port: relay.port, token, connections, seconds: forSeconds, rate };
  const published = await publisher.ask<PublishReply>(request);
  const events = published.accepted;
  if (published.refused > 0 || events === 0) throw new Error(`${published.refused} publications were refused`);
  const { at } = await receiver.ask<Extract<FromReceiver, { kind: "reached" }>>({ kind: "await", count: events });
  const cpuPerEvent = ((await cpuMicroseconds(pid)) - cpu) / events;
  const figures = await receiver.ask<Figures>({ kind: "read" });
  if (figures.bad > 0) throw new Error(`${figures.bad} deliveries had a wrong signature or body`);
  return { events, ms: at - published.from, publishMs: published.to - published.from, cpuPerEvent, figures };
}

async function measure(folder: string) {
  const authority = await makeAuthority(Date.now());
  const { cert, key } = await authority.issue(["127.0.0.1"]);
  const receiver = start("receiver.ts");
  const { port } = await receiver.ask<Extract<FromReceiver, { kind: "listening" }>>({ kind: "listen", cert, key });
  const url = `https://127.0.0.1:${port}/hook`;
  const relay = await prepare({
    folder,
    ca: authority.ca,
    connections,
    storage: options.storage,
    logLevel: options.log,
    profile: options.profile,
  });
  say("starting the relay …");
  let running = await relay.start();
  own(running.child);
  const firstStartMs = running.startMs;
  const secret = await relay.subscribe(KEY_ID, url);
  await receiver.ask({ kind: "secret", secret });
  const world: World = {
    receiver,
    loop: start("loop.ts"),
    publisher: start("publisher.ts"),
    relay,
    url,
    ca: authority.ca,
    secret,
  };

  say("warming up …");
  await rawLoop(world, 1);
  await pass(world, running, WARM_SECONDS);
  say("the raw loop, the relay at full speed, the raw loop again …");
  const loopSeconds = Math.max(2, seconds / 3);
  const before = await rawLoop(world, loopSeconds);
  const full = await pass(world, running, seconds);
  const after = await rawLoop(world, loopSeconds);
  say(`a steady ${STEADY} events/s …`);
  const steady = await pass(world, running, Math.max(3, seconds / 2), STEADY);
  const busy = await memoryOf(running.child.pid as number);
  say("a second start …");
  await running.stop();
  running = await relay.start();
  own(running.child);
  await new Promise((done) => setTimeout(done, 3_000));
  const idle = await memoryOf(running.child.pid as number);
  await running.stop();

  const raw = (before.perSecond + after.perSecond) / 2;
  const eventsPerSecond = (full.events / full.ms) * 1_000;
  const latency = (values: readonly number[]) => ({
    p50: round(percentile(values, 50), 2),
    p99: round(percentile(values, 99), 2),
  });
  return {
    cores: availableParallelism(),
    node: process.version,
    storage: options.storage,
    connections,
    bodyBytes: Buffer.byteLength(publication()),
    events: full.events,
    eventsPerSecond: round(eventsPerSecond, 0),
    publishedPerSecond: round((full.events / full.publishMs) * 1_000, 0),
    rawRequestsPerSecond: round(raw, 0),
    rawBefore: round(before.perSecond, 0),
    rawAfter: round(after.perSecond, 0),
    rawCpuMicrosecondsPerRequest: round((before.cpu + after.cpu) / 2),
    ratio: round(eventsPerSecond / raw, 3),
    cpuMicrosecondsPerEvent: round(full.cpuPerEvent),
    repeated: full.figures.repeated,
    steadyPerSecond: STEADY,
    publishToReceiverMs: latency(steady.figures.fromSent),
    acceptToReceiverMs: latency(steady.figures.fromAccepted),
    firstStartMs: round(firstStartMs, 0),
    secondStartMs: round(running.startMs, 0),
    idleRssMb: round(idle.rss),
    idleAnonymousMb: round(idle.anonymous),
    busyRssMb: round(busy.rss),
  };
}

function print(result: Awaited<ReturnType<typeof measure>>): void {
  const row = (name: string, value: string): void => console.log(`${name.padEnd(44)} ${value}`);
  console.log(
    `${result.storage}, ${result.connections} connections, ${result.bodyBytes}-byte events, ${result.cores} cores`,
  );
  row("end to end, events/s", `${result.eventsPerSecond} (${result.events} events, ${result.repeated} repeated)`);
  row("raw loop, requests/s", `${result.rawRequestsPerSecond} (${result.rawBefore} before, ${result.rawAfter} after)`);
  row("ratio", String(result.ratio));
  row(
    "CPU of the relay, µs per event",
    `${result.cpuMicrosecondsPerEvent} (raw loop: ${result.rawCpuMicrosecondsPerRequest} per request)`,
  );
  const latency = ({ p50, p99 }: { readonly p50: number; readonly p99: number }) => `p50 ${p50}, p99 ${p99}`;
  row(`accept → receiver at ${result.steadyPerSecond}/s, ms`, latency(result.acceptToReceiverMs));
  row(`publish sent → receiver at ${result.steadyPerSecond}/s, ms`, latency(result.publishToReceiverMs));
  row("second start → first 200 of /healthz, ms", `${result.secondStartMs} (first start ${result.firstStartMs})`);
  row(
    "resident memory, MB",
    `${result.idleRssMb} idle (${result.idleAnonymousMb} of it not files), ${result.busyRssMb} after load`,
  );
}

const folder = await mkdtemp(join(tmpdir(), "relay-bench-"));
// It ends by itself, whatever hangs.
const deadline = setTimeout(
  () => {
    say("the benchmark did not end in time");
    endAll();
    process.exit(1);
  },
  (seconds * 6 + 120) * 1_000,
);
let failed = false;
try {
  const result = await measure(folder);
  if (options.json) console.log(JSON.stringify(result));
  else print(result);
} catch (error) {
  failed = true;
  say(error instanceof Error ? error.message : String(error));
} finally {
  clearTimeout(deadline);
  endAll();
  await rm(folder, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);
