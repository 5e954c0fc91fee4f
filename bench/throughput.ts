// The main job measured beside the raw loop, in one run: publish over HTTP, store with fsync, sign, deliver over TLS, check.
// Every process is real and of its own; all of them share the machine's cores. What is printed are medians of rounds that
// are spread over two processes of the relay.
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { makeAuthority } from "../core/cli/support/certificates.ts";
import { benchRun, round, say } from "./throughput/bench-run.ts";
import { KEY_ID, publication } from "./throughput/event.ts";
import type { FromReceiver } from "./throughput/messages.ts";
import { median, memoryOf, own, percentile, start } from "./throughput/process.ts";
import { prepare } from "./throughput/relay.ts";
import { pass, type Round, takeRounds, type World } from "./throughput/rounds.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** How long a round publishes at full speed. */
    seconds: { type: "string", default: "4" },
    /** Rounds of each of the two processes of the relay. */
    rounds: { type: "string", default: "3" },
    connections: { type: "string", default: "64" },
    storage: { type: "string", default: "sqlite()" },
    log: { type: "string", default: "info" },
    /** Folder for CPU profiles of the relay. */
    profile: { type: "string" },
  },
});
const seconds = Math.min(Math.max(Number(options.seconds) || 4, 1), 120);
const rounds = Math.min(Math.max(Number(options.rounds) || 3, 1), 20);
const connections = Math.min(Math.max(Number(options.connections) || 64, 1), 512);
const STEADY = 1_000;
/** The relay is measured as it runs for months: until then V8 is still compiling what is hot. */
const WARM_SECONDS = 15;

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
  const publisher = start("publisher.ts");
  const world: World = { receiver, publisher, relay, url, ca: authority.ca, secret, connections };

  const measureRounds = async (): Promise<Round[]> => {
    say("warming up …");
    await pass(world, running, WARM_SECONDS);
    say(`${rounds} rounds: the raw loop, the relay at full speed, the raw loop again …`);
    return takeRounds(world, running, rounds, seconds);
  };
  const first = await measureRounds();
  say(`a steady ${STEADY} events/s …`);
  const steady = await pass(world, running, Math.max(3, seconds), STEADY);
  const busy = await memoryOf(running.child.pid as number);
  say("a second start …");
  await running.stop();
  running = await relay.start();
  own(running.child);
  await new Promise((done) => setTimeout(done, 3_000));
  const idle = await memoryOf(running.child.pid as number);
  const all = [...first, ...(await measureRounds())];
  await running.stop();

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
    connections,
    bodyBytes: Buffer.byteLength(publication()),
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
    secondStartMs: round(running.startMs, 0),
    idleRssMb: round(idle.rss, 1),
    idleAnonymousMb: round(idle.anonymous, 1),
    busyRssMb: round(busy.rss, 1),
  };
}

function print(result: Awaited<ReturnType<typeof measure>>): void {
  const row = (name: string, value: string): void => console.log(`${name.padEnd(44)} ${value}`);
  console.log(
    `${result.storage}, ${result.connections} connections, ${result.bodyBytes}-byte events, ${result.cores} cores, ${result.rounds} rounds`,
  );
  row("end to end, events/s", `${result.eventsPerSecond} (${result.events} events, ${result.repeated} repeated)`);
  row("raw loop, requests/s", String(result.rawRequestsPerSecond));
  row("ratio, median of the rounds", `${result.ratio} (${result.ratioLeast} … ${result.ratioMost})`);
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

await benchRun({ longestS: 2 * rounds * (seconds * 4 + 10) + 240, json: options.json, measure, print });
