// How long an event takes from its publication, and from its 202, to the receiver, at parts of what the relay can carry.
// An open loop: what is due is published at its time, whatever the answers before it take. The raw loop at the same rate
// stands beside it: what a bare request over TLS takes on this machine, with as much going on.
import { parseArgs } from "node:util";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { diskSpeed, hostSpeed, hostText } from "./throughput/host.ts";
import { median, percentile } from "./throughput/process.ts";
import { pass, rawLoop } from "./throughput/rounds.ts";
import { openWorld, WARM_SECONDS } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** Of each rate. */
    seconds: { type: "string", default: "10" },
    storage: { type: "string", default: "sqlite()" },
  },
});
const seconds = within(options.seconds, 2, 120, 10);
const PERCENTS = [10, 50, 80];

interface Latency {
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
}
const latency = (values: readonly number[]): Latency => ({
  p50: round(percentile(values, 50), 2),
  p99: round(percentile(values, 99), 2),
  p999: round(percentile(values, 99.9), 2),
});

async function measure(folder: string) {
  const { storage } = options;
  const world = await openWorld({ folder, storage });
  const disk = await diskSpeed(folder);
  const host = await hostSpeed(world, 3);
  say("warming up …");
  await pass(world, world.running, WARM_SECONDS, { form: "ids" });
  const best: number[] = [];
  for (let i = 0; i < 3; i++) best.push((await pass(world, world.running, 3, { form: "ids" })).eventsPerSecond);
  const most = median(best);
  say(`full speed: ${round(most)} events/s`);
  const rates = [];
  for (const percent of PERCENTS) {
    const rate = Math.max(1, Math.round((most * percent) / 100));
    say(`${percent} %, ${rate} events/s …`);
    const raw = await rawLoop(world, seconds, rate);
    const { events, fromAccepted, fromSent, repeated } = await pass(world, world.running, seconds, {
      form: "ids",
      rate,
    });
    const of = { accepted: latency(fromAccepted), sent: latency(fromSent), raw: latency(raw.latencies) };
    rates.push({ percent, rate, events, repeated, ...of });
  }
  await world.end();
  return { storage, eventsPerSecond: round(most), host, disk, rates };
}

const text = ({ p50, p99, p999 }: Latency): string => `p50 ${p50}, p99 ${p99}, p99.9 ${p999}`;

await benchRun({
  longestS: 240 + seconds * 10,
  json: options.json,
  measure,
  met: ({ rates }) => rates.every(({ repeated }) => repeated === 0),
  print({ storage, eventsPerSecond, host, disk, rates }) {
    console.log(`${storage}, full speed ${eventsPerSecond} events/s; all times in ms`);
    console.log(`this machine: ${hostText(host)}; its disk keeps 4 KB in p50 ${disk.p50}, p99 ${disk.p99}`);
    for (const { percent, rate, accepted, sent, raw } of rates) {
      console.log(`at ${percent} % (${rate}/s)`);
      console.log(`  accept → receiver        ${text(accepted)}`);
      console.log(`  publish due → receiver   ${text(sent)}`);
      console.log(`  raw loop, due → answer   ${text(raw)}`);
    }
  },
});
