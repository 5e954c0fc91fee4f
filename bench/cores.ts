// How the rate grows with the threads: each thread of the relay has a part of a core of its own, publisher and receiver are
// outside. Where CPU cgroups may not be used it says so, and measures on the machine's cores as they are.
import { mkdir } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { partCores, type PartCores } from "./cores/part-cores.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { median } from "./throughput/process.ts";
import { pass } from "./throughput/rounds.ts";
import { openWorld, WARM_SECONDS } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** How long a round publishes at full speed. */
    seconds: { type: "string", default: "10" },
    rounds: { type: "string", default: "3" },
    storage: { type: "string", default: "sqlite()" },
    threads: { type: "string", default: "1,2,4" },
    /** Each thread gets one of so many parts of a core. All of them, the publisher and the receiver must find room on the machine. */
    parts: { type: "string", default: "4" },
  },
});
const seconds = within(options.seconds, 1, 120, 10);
const rounds = within(options.rounds, 1, 20, 3);
const parts = within(options.parts, 1, 64, 4);
const counts = options.threads.split(",").map(Number);
const { storage } = options;

async function withThreads(threads: number, parent: string) {
  const folder = join(parent, String(threads));
  await mkdir(folder);
  say(`${threads} threads: starting the relay …`);
  const world = await openWorld({ folder, storage, logLevel: "warn", config: `threads: ${threads},` });
  let cgroups: PartCores | undefined;
  try {
    say("warming up …");
    // Each thread compiles for itself what is hot.
    await pass(world, world.running, WARM_SECONDS * Math.min(threads, 4));
    try {
      cgroups = partCores(world.running.child.pid as number, parts);
    } catch (error) {
      say(`CPU cgroups may not be used here (${String(error)}): the machine's cores are measured as they are`);
    }
    const rates: number[] = [];
    const cpu: number[] = [];
    for (let i = 0; i < rounds; i++) {
      say(`round ${i + 1} of ${rounds} …`);
      const passed = await pass(world, world.running, seconds);
      rates.push(passed.eventsPerSecond);
      cpu.push(passed.cpu);
    }
    await world.end();
    return {
      threads,
      cgroups: cgroups !== undefined,
      eventsPerSecond: round(median(rates)),
      least: round(Math.min(...rates)),
      most: round(Math.max(...rates)),
      cpuMicrosecondsPerEvent: round(median(cpu)),
    };
  } finally {
    cgroups?.remove();
  }
}

await benchRun({
  longestS: counts.length * (300 + rounds * seconds * 4),
  json: options.json,
  async measure(folder) {
    const results = [];
    for (const threads of counts) results.push(await withThreads(threads, folder));
    const first = results[0]?.eventsPerSecond ?? Number.NaN;
    const all = results.map((one) => ({ ...one, timesTheFirst: round(one.eventsPerSecond / first, 2) }));
    return { cores: availableParallelism(), storage, results: all };
  },
  print({ results }) {
    for (const one of results) {
      const where = one.cgroups
        ? `a ${parts === 4 ? "quarter" : `${parts}th part`} of a core each`
        : "the machine's cores";
      const spread = `${one.least} … ${one.most}`;
      console.log(
        `${one.threads} threads, ${where}: ${one.eventsPerSecond} events/s (${spread}), ${one.timesTheFirst} × the first, ${one.cpuMicrosecondsPerEvent} µs CPU an event`,
      );
    }
  },
});
