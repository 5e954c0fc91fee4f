// Measures the cost of a delivery of each transport beside one over HTTPS: events are published in batches over HTTP, and the rate is
// that at which they come to an end, in turns, in one run on one relay. What arrived is read back and its signature checked.
import { createHmac } from "node:crypto";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { events, publishBatches } from "./brokers/batches.ts";
import { METRICS, reached, readCounters } from "./brokers/counters.ts";
import { FARS, type Far } from "./brokers/fars.ts";
import { startServers } from "./brokers/servers.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { ENDING, KEY_ID, nowMs } from "./throughput/event.ts";
import { cpuMicroseconds, median, type Peer } from "./throughput/process.ts";
import type { RelayUnderTest, RunningRelay } from "./throughput/relay.ts";
import type { Figures } from "./throughput/rounds.ts";
import { openWorld } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** Deliveries of a round. */
    events: { type: "string", default: "10000" },
    rounds: { type: "string", default: "5" },
    storage: { type: "string", default: "sqlite()" },
    /** Only these, such as `toAmqp,toNats`. */
    only: { type: "string" },
    /** Folder for CPU profiles of the relay. */
    profile: { type: "string" },
  },
});
const count = within(options.events, 500, 100_000, 10_000);
const rounds = within(options.rounds, 1, 20, 5);
/** A round that is not done by then has failed. */
const ROUND_MS = 120_000;
const DELIVERED = 'relay_deliveries_total{outcome="delivered"}';

/** A destination with the key whose events go there. */
interface Lane {
  readonly name: string;
  readonly keyId: string;
  /** Makes sure that exactly the events of a round are there, each once and signed. */
  check(): Promise<void>;
}

interface Turn {
  readonly perSecond: number;
  /** Of the relay's process, µs a delivery. */
  readonly cpu: number;
}

async function turn(relay: RelayUnderTest, running: RunningRelay, { name, keyId, check }: Lane): Promise<Turn> {
  const pid = running.child.pid as number;
  const bodies = events(count, keyId);
  const before = (await readCounters(relay.port)).read(DELIVERED);
  const cpuBefore = await cpuMicroseconds(pid);
  const at = nowMs();
  await publishBatches(relay, bodies);
  const end = await reached(relay.port, DELIVERED, before + count, ROUND_MS);
  const cpu = ((await cpuMicroseconds(pid)) - cpuBefore) / count;
  const delivered = (await readCounters(relay.port)).read(DELIVERED) - before;
  if (delivered !== count) throw new Error(`${name}: ${delivered} deliveries of ${count} events`);
  await check();
  return { perSecond: (count / (end - at)) * 1_000, cpu };
}

async function checkReceiver(receiver: Peer): Promise<void> {
  const { good, bad, repeated } = await receiver.ask<Figures>({ kind: "read" });
  await receiver.ask({ kind: "reset" });
  if (good !== count || bad + repeated > 0) throw new Error(`https: ${good} good, ${bad} bad, ${repeated} repeated`);
}

async function checkFar(name: string, far: Far, secret: string): Promise<void> {
  const all = await far.take(count);
  const right = all.filter(
    ({ body, signature }) =>
      body.toString("latin1").endsWith(ENDING) && signature === createHmac("sha256", secret).update(body).digest("hex"),
  );
  const ids = new Set(all.map(({ id }) => id));
  if (all.length !== count || right.length !== count || ids.size !== count)
    throw new Error(
      `${name}: of ${count}, ${all.length} arrived, ${right.length} rightly signed, ${ids.size} different`,
    );
}

async function measure(folder: string) {
  say("starting the servers …");
  const servers = await startServers();
  const chosen = options.only?.split(",");
  const missing: Record<string, string> = {};
  const fars = new Map<string, Far>();
  for (const { name, system, make } of FARS) {
    if (chosen !== undefined && !chosen.includes(name)) continue;
    const { url = "", missing: why } = system === undefined ? {} : servers.at[system];
    if (why === undefined) fars.set(name, await make(url, folder));
    else missing[name] = `${system} ${why}`;
  }
  for (const why of Object.values(missing)) say(`not measured: ${why}`);
  const transports = ["relay.https()", ...[...fars.values()].map(({ transport }) => transport)];
  // Several subscriptions are made at once.
  const config = `${METRICS} limits: { "*": false }, transports: [${transports.join(", ")}],`;
  const { storage, profile } = options;
  const world = await openWorld({ folder, storage, logLevel: "warn", config, profile });
  const { receiver, relay, running } = world;
  const lanes: Lane[] = [{ name: "https", keyId: KEY_ID, check: () => checkReceiver(receiver) }];
  for (const [name, far] of fars) {
    const keyId = `key_${name}`;
    const own = await relay.subscribe(keyId, far.url);
    lanes.push({ name, keyId, check: () => checkFar(name, far, own) });
  }
  const turns = new Map(lanes.map(({ name }) => [name, [] as Turn[]]));
  for (let at = 0; at <= rounds; at++) {
    say(at === 0 ? "warming up …" : `round ${at} of ${rounds}: ${lanes.length} transports, ${count} deliveries each …`);
    for (const lane of lanes) {
      const made = await turn(relay, running, lane);
      if (at > 0) turns.get(lane.name)?.push(made);
    }
  }
  await world.end();
  await Promise.all([...fars.values()].map((far) => far.close()));
  await servers.stop();

  const https = (turns.get("https") ?? []).map(({ perSecond }) => perSecond);
  const results = lanes.map(({ name }) => {
    const made = turns.get(name) ?? [];
    const ratios = made.map(({ perSecond }, at) => perSecond / (https[at] ?? Number.NaN));
    return {
      transport: name,
      deliveriesPerSecond: round(median(made.map(({ perSecond }) => perSecond))),
      ratio: round(median(ratios), 2),
      ratioLeast: round(Math.min(...ratios), 2),
      ratioMost: round(Math.max(...ratios), 2),
      cpuMicrosecondsPerDelivery: round(median(made.map(({ cpu }) => cpu)), 1),
    };
  });
  const about = { cores: availableParallelism(), node: process.version, storage };
  return { ...about, events: count, rounds, transports: results, missing };
}

function print({ transports, missing, ...about }: Awaited<ReturnType<typeof measure>>): void {
  console.log(`${about.storage}, ${about.events} deliveries a round, ${about.rounds} rounds, ${about.cores} cores`);
  console.table(
    transports.map((one) => ({
      transport: one.transport,
      "deliveries/s": one.deliveriesPerSecond,
      "of https": `${one.ratio} (${one.ratioLeast} … ${one.ratioMost})`,
      "µs CPU": one.cpuMicrosecondsPerDelivery,
    })),
  );
  for (const [name, why] of Object.entries(missing)) console.log(`${name} was not measured: ${why}`);
}

await benchRun({ longestS: 900, json: options.json, measure, print });
