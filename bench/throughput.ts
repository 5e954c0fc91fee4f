// The main job measured beside the raw loop, in one run: publish over HTTP, store with fsync, sign, deliver over TLS, check.
// Every process is real and of its own; all of them share the machine's cores. What is printed are medians of rounds that
// are spread over two processes of the relay.
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { benchRun, round, say } from "./throughput/bench-run.ts";
import { type Form, request } from "./throughput/event.ts";
import { median, memoryOf, percentile } from "./throughput/process.ts";
import { pass, type Round, takeRounds } from "./throughput/rounds.ts";
import { stations } from "./throughput/stations.ts";
import { openWorld, WARM_SECONDS } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** How long a round publishes at full speed. */
    seconds: { type: "string", default: "4" },
    /** Rounds of each of the two processes of the relay. */
    rounds: { type: "string", default: "3" },
    connections: { type: "string", default: "64" },
    storage: { type: "string", default: "sqlite()" },
    /** What a request carries: `single`, or `ids` for an event with an id of its own. */
    form: { type: "string", default: "single" },
    log: { type: "string", default: "info" },
    /** Folder for CPU profiles of the relay: what each station takes of an event is printed then. */
    profile: { type: "string" },
  },
});
const seconds = Math.min(Math.max(Number(options.seconds) || 4, 1), 120);
const rounds = Math.min(Math.max(Number(options.rounds) || 3, 1), 20);
const connections = Math.min(Math.max(Number(options.connections) || 64, 1), 512);
const form: Form = options.form === "ids" ? "ids" : "single";
const STEADY = 1_000;

async function measure(folder: string) {
  say("starting the relay …");
  const { storage, profile, log: logLevel } = options;
  const world = await openWorld({ folder, connections, storage, logLevel, profile });
  const firstStartMs = world.running.startMs;

  let warmed = 0;
  const measureRounds = async (): Promise<Round[]> => {
    say("warming up …");
    warmed += (await pass(world, world.running, WARM_SECONDS, { form })).events;
    say(`${rounds} rounds: the raw loop, the relay at full speed, the raw loop again …`);
    return takeRounds(world, world.running, rounds, seconds, form);
  };
  const first = await measureRounds();
  say(`a steady ${STEADY} events/s …`);
  const steady = await pass(world, world.running, Math.max(3, seconds), { rate: STEADY, form });
  const busy = await memoryOf(world.running.child.pid as number);
  say("a second start …");
  await world.running.stop();
  const { startMs } = await world.restart();
  await new Promise((done) => setTimeout(done, 3_000));
  const idle = await memoryOf(world.running.child.pid as number);
  const all = [...first, ...(await measureRounds())];
  await world.end();
  // Those of the warm-up are in the profiles too.
  const profiled = warmed + steady.events + all.reduce((sum, { full }) => sum + full.events, 0);
  const byStation = profile === undefined ? undefined : await stations(profile, profiled);

  const middle = (figure: (one: Round) => number): number => median(all.map(figure));
  const ratios = all.map(({ ratio }) => ratio);
  const latency = (values: readonly number[]) => ({
    p50: round(percentile(values, 50), 2),
    p99: round(percentile(values, 99), 2),
  });
  return {
    cores: availableParallelism(),
    node: process.version,
    storage: options.storage,
    form,
    connections,
    bodyBytes: Buffer.byteLength(request(form)),
    rounds: all.length,
    events: all.reduce((sum, { full }) => sum + full.events, 0),
    repeated: all.reduce((sum, { full }) => sum + full.figures.repeated, 0),
    eventsPerSecond: round(
      middle(({ full }) => full.eventsPerSecond),
      0,
    ),
    rawRequestsPerSecond: round(
      middle(({ raw }) => raw.perSecond),
      0,
    ),
    rawCpuMicrosecondsPerRequest: round(
      middle(({ raw }) => raw.cpu),
      1,
    ),
    ratio: round(
      middle(({ ratio }) => ratio),
      3,
    ),
    cpuRatio: round(
      middle(({ full, raw }) => full.cpu / raw.cpu),
      2,
    ),
    ratioLeast: round(Math.min(...ratios), 3),
    ratioMost: round(Math.max(...ratios), 3),
    cpuMicrosecondsPerEvent: round(
      middle(({ full }) => full.cpu),
      1,
    ),
    steadyPerSecond: STEADY,
    publishToReceiverMs: latency(steady.figures.fromSent),
    acceptToReceiverMs: latency(steady.figures.fromAccepted),
    firstStartMs: round(firstStartMs, 0),
    secondStartMs: round(startMs, 0),
    idleRssMb: round(idle.rss, 1),
    idleAnonymousMb: round(idle.anonymous, 1),
    busyRssMb: round(busy.rss, 1),
    ...(byStation && { stations: Object.fromEntries([...byStation].map(([name, us]) => [name, round(us, 1)])) }),
  };
}

function print(result: Awaited<ReturnType<typeof measure>>): void {
  const row = (name: string, value: string): void => console.log(`${name.padEnd(44)} ${value}`);
  console.log(
    `${result.storage}, ${result.form}, ${result.connections} connections, ${result.bodyBytes}-byte events, ${result.cores} cores, ${result.rounds} rounds`,
  );
  row("end to end, events/s", `${result.eventsPerSecond} (${result.events} events, ${result.repeated} repeated)`);
  row("raw loop, requests/s", String(result.rawRequestsPerSecond));
  row("ratio, median of the rounds", `${result.ratio} (${result.ratioLeast} … ${result.ratioMost})`);
  row(
    "CPU of the relay, µs per event",
    `${result.cpuMicrosecondsPerEvent} (raw loop: ${result.rawCpuMicrosecondsPerRequest} per request; ${result.cpuRatio} times)`,
  );
  const latency = ({ p50, p99 }: { readonly p50: number; readonly p99: number }) => `p50 ${p50}, p99 ${p99}`;
  row(`accept → receiver at ${result.steadyPerSecond}/s, ms`, latency(result.acceptToReceiverMs));
  row(`publish sent → receiver at ${result.steadyPerSecond}/s, ms`, latency(result.publishToReceiverMs));
  row("second start → first 200 of /healthz, ms", `${result.secondStartMs} (first start ${result.firstStartMs})`);
  row(
    "resident memory, MB",
    `${result.idleRssMb} idle (${result.idleAnonymousMb} of it not files), ${result.busyRssMb} after load`,
  );
  for (const [name, us] of Object.entries(result.stations ?? {})) row(`  ${name}, µs per event`, String(us));
}

await benchRun({ longestS: 2 * rounds * (seconds * 4 + 10) + 240, json: options.json, measure, print });
