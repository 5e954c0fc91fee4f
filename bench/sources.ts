// Measures the cost of a message of each source beside one of the `http` source: the rate at which a full upstream is stored, in turns
// with batches over HTTP, in one run on one relay; what each client does alone, without a relay; and who takes the CPU. Then the
// lag of each, from upstream to the first attempt, at a steady rate.
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { events, publishBatches } from "./brokers/batches.ts";
import { METRICS, reached, readCounters } from "./brokers/counters.ts";
import { steadyLag, type Lag } from "./brokers/lag.ts";
import { startServers, type Servers } from "./brokers/servers.ts";
import { between, readShares, type Shares } from "./brokers/shares.ts";
import { UPSTREAMS, type Upstream } from "./brokers/upstreams.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { nowMs } from "./throughput/event.ts";
import { median } from "./throughput/process.ts";
import type { RelayUnderTest, RunningRelay } from "./throughput/relay.ts";
import { openWorld } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** Messages that a round finds upstream. */
    events: { type: "string", default: "10000" },
    rounds: { type: "string", default: "5" },
    /** Of each measurement of lag. */
    seconds: { type: "string", default: "8" },
    storage: { type: "string", default: "sqlite()" },
    /** Only these, such as `amqp,nats`. */
    only: { type: "string" },
    /** Folder for CPU profiles of the relay. */
    profile: { type: "string" },
  },
});
const count = within(options.events, 500, 100_000, 10_000);
const rounds = within(options.rounds, 1, 20, 5);
const seconds = within(options.seconds, 1, 60, 8);
const RATE = 500;
/** Events of this key have no subscription. */
const STORED_ONLY = "key_stored";
/** A round that is not done by then has failed. */
const ROUND_MS = 120_000;

/** Batches over HTTP: of events that the relay names, or of events with ids, which it must recognise as those of a source. */
const [HTTP, NAMED] = ["http", "http, ids"] as const;
type From = Upstream | typeof HTTP | typeof NAMED;
const nameOf = (from: From): string => (typeof from === "string" ? from : from.name);

interface Turn {
  readonly perSecond: number;
  /** The client alone. */
  readonly alone: number;
  /** µs CPU an event. */
  readonly shares: Shares;
  /** Messages that upstream delivered again, which were recognised: it takes a relay that stands still for long for lost. */
  readonly repeated: number;
}

/** Stores one round of events from a source, and checks that each was stored once. */
async function turn(relay: RelayUnderTest, running: RunningRelay, servers: Servers, from: From): Promise<Turn> {
  const shares = (): Promise<Shares> => readShares(running.child.pid as number, servers.pid);
  const labels = `{source="${typeof from === "string" ? HTTP : from.name}"}`;
  const accepted = `relay_accepted_total${labels}`;
  const bodies = events(count, STORED_ONLY, from === NAMED);
  const alone = typeof from === "string" ? Number.NaN : await takenAlone(from, bodies);
  const before = await readCounters(relay.port);
  if (typeof from !== "string") {
    // So that all of it is there when the source begins.
    running.child.kill("SIGSTOP");
    await from.fill(bodies);
  }
  const sharesBefore = await shares();
  const at = nowMs();
  if (typeof from === "string") await publishBatches(relay, bodies);
  else running.child.kill("SIGCONT");
  const end = await reached(relay.port, accepted, before.read(accepted) + count, ROUND_MS);
  const spent = between(sharesBefore, await shares(), count);
  const after = await readCounters(relay.port);
  const more = (series: string): number => after.read(series + labels) - before.read(series + labels);
  const [stored, repeated, refused] = [
    more("relay_accepted_total"),
    more("relay_duplicates_total"),
    more("relay_source_dead_lettered_total"),
  ];
  if (stored !== count || refused > 0)
    throw new Error(`${labels}: ${stored} of ${count} stored, ${repeated} repeated, ${refused} set aside`);
  return { perSecond: (count / (end - at)) * 1_000, alone, shares: spent, repeated };
}

/** Messages a second that the client alone reads and acknowledges. */
async function takenAlone({ fill, take }: Upstream, bodies: readonly string[]): Promise<number> {
  if (take === undefined) return Number.NaN;
  await fill(bodies, true);
  const at = nowMs();
  await take(count);
  return (count / (nowMs() - at)) * 1_000;
}

async function measure(folder: string) {
  say("starting the servers …");
  const servers = await startServers();
  const chosen = options.only?.split(",");
  const missing: Record<string, string> = {};
  const upstreams: Upstream[] = [];
  for (const { name, system, make } of UPSTREAMS) {
    if (chosen !== undefined && !chosen.includes(name)) continue;
    const { url, missing: why = "" } = servers.at[system];
    if (url === undefined) missing[name] = `${system} ${why}`;
    else upstreams.push(await make(url));
  }
  for (const why of Object.values(missing)) say(`not measured: ${why}`);
  const config = `${METRICS} sources: [${["relay.http()", ...upstreams.map(({ source }) => source)].join(", ")}],`;
  const { storage, profile } = options;
  const world = await openWorld({ folder, storage, logLevel: "warn", config, profile });
  const { relay, running } = world;

  const all: readonly From[] = [HTTP, NAMED, ...upstreams];
  const turns = new Map(all.map((one) => [one, [] as Turn[]]));
  for (let at = 0; at <= rounds; at++) {
    say(at === 0 ? "warming up …" : `round ${at} of ${rounds}: ${all.length} sources, ${count} messages each …`);
    for (const one of all) {
      const made = await turn(relay, running, servers, one);
      if (at > 0) turns.get(one)?.push(made);
    }
  }
  say(`lag at ${RATE} messages/s, ${seconds} s each …`);
  const lags = new Map<From, Lag>();
  for (const one of all) {
    if (one === NAMED) continue;
    lags.set(one, await steadyLag(world, running, typeof one === "string" ? undefined : one, { rate: RATE, seconds }));
  }
  await world.end();
  await Promise.all(upstreams.map((one) => one.close()));
  await servers.stop();

  const ratesOf = (one: From): readonly number[] => (turns.get(one) ?? []).map(({ perSecond }) => perSecond);
  const ratiosTo = (measure: From, rates: readonly number[]): readonly number[] =>
    rates.map((rate, at) => rate / (ratesOf(measure)[at] ?? Number.NaN));
  const sources = all.map((one) => {
    const made = turns.get(one) ?? [];
    const ratios = ratiosTo(HTTP, ratesOf(one));
    const share = (part: keyof Shares): number => round(median(made.map(({ shares }) => shares[part])), 1);
    return {
      source: nameOf(one),
      eventsPerSecond: round(median(ratesOf(one))),
      ratio: round(median(ratios), 2),
      ratioLeast: round(Math.min(...ratios), 2),
      ratioMost: round(Math.max(...ratios), 2),
      ofNamed: round(median(ratiosTo(NAMED, ratesOf(one))), 2),
      clientAlone: round(
        median(
          ratiosTo(
            HTTP,
            made.map(({ alone }) => alone),
          ),
        ),
        2,
      ),
      cpu: { main: share("main"), storage: share("storage"), other: share("other"), server: share("server") },
      repeated: made.reduce((sum, { repeated }) => sum + repeated, 0),
      lagMs: lags.get(one),
    };
  });
  return {
    cores: availableParallelism(),
    node: process.version,
    storage,
    events: count,
    rounds,
    rate: RATE,
    sources,
    missing,
  };
}

function print({ sources, ...about }: Awaited<ReturnType<typeof measure>>): void {
  console.log(`${about.storage}, ${about.events} messages a round, ${about.rounds} rounds, ${about.cores} cores`);
  console.table(
    sources.map((one) => ({
      source: one.source,
      "events/s": one.eventsPerSecond,
      "of http": `${one.ratio} (${one.ratioLeast} … ${one.ratioMost})`,
      "of http, ids": one.ofNamed,
      "client alone, of http": Number.isNaN(one.clientAlone) ? "" : one.clientAlone,
      "µs CPU: main": one.cpu.main,
      storage: one.cpu.storage,
      other: one.cpu.other,
      server: one.cpu.server,
      repeated: one.repeated,
      [`lag p50 at ${about.rate}/s, ms`]: one.lagMs?.p50 ?? "",
      "p99, ms": one.lagMs?.p99 ?? "",
    })),
  );
  for (const [name, why] of Object.entries(about.missing)) console.log(`${name} was not measured: ${why}`);
}

await benchRun({ longestS: 900, json: options.json, measure, print });
