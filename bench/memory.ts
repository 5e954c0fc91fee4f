// Measures the memory of a relay while nothing happens, how fast it starts, and what a million delivered events leave behind.
import { parseArgs } from "node:util";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { nowMs } from "./throughput/event.ts";
import { cpuMicroseconds, type Memory, memoryOf } from "./throughput/process.ts";
import { pass, rawLoop } from "./throughput/rounds.ts";
import { openWorld, type OpenWorld } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    events: { type: "string", default: "1000000" },
    /** How long it rests before each look at it, s: the relay tidies its heap after two quiet minutes. */
    idle: { type: "string", default: "160" },
    storage: { type: "string", default: "sqlite()" },
  },
});
const events = within(options.events, 1_000, 100_000_000, 1_000_000);
const idleS = within(options.idle, 5, 600, 30);
/** How long is published at once: lists, so that a slow publisher does not decide. */
const SLICE_S = 4;
/** Limits that must be reached. */
const LIMITS = { idleMb: 110, idleCpuPercent: 0.3, grown: 1.3 };

interface Rest extends Memory {
  /** Of one core. */
  readonly cpuPercent: number;
}

/** Lets it rest, and looks at what it took meanwhile. */
async function rest({ running }: OpenWorld): Promise<Rest> {
  const pid = running.child.pid as number;
  const [cpu, from] = [await cpuMicroseconds(pid), nowMs()];
  await new Promise((done) => setTimeout(done, idleS * 1_000));
  const used = (await cpuMicroseconds(pid)) - cpu;
  const { rss, anonymous } = await memoryOf(pid);
  const cpuPercent = round(used / 10 / (nowMs() - from), 2);
  return { rss: round(rss, 1), anonymous: round(anonymous, 1), cpuPercent };
}

async function measure(folder: string) {
  const { storage } = options;
  const world = await openWorld({ folder, storage });
  await world.running.stop();
  const { startMs } = await world.restart();
  await new Promise((done) => setTimeout(done, 3_000));
  say(`${idleS} s of rest …`);
  const before = await rest(world);
  const rates: number[] = [];
  for (let delivered = 0; delivered < events;) {
    const passed = await pass(world, world.running, SLICE_S, { form: "batch", connections: 2 });
    delivered += passed.events;
    rates.push(passed.eventsPerSecond);
    say(`${delivered.toLocaleString("en")} events delivered`);
  }
  const busy = await memoryOf(world.running.child.pid as number);
  const raw = await rawLoop(world, 3);
  say(`${idleS} s of rest …`);
  const after = await rest(world);
  await world.end();
  const grown = after.rss / before.rss;
  const met = before.rss <= LIMITS.idleMb && before.cpuPercent <= LIMITS.idleCpuPercent && grown <= LIMITS.grown;
  return {
    storage,
    events,
    startMs: round(startMs),
    before,
    busyRssMb: round(busy.rss, 1),
    after,
    grown: round(grown, 2),
    ratio: round(rates.reduce((sum, one) => sum + one, 0) / rates.length / raw.perSecond, 2),
    met,
  };
}

await benchRun({
  longestS: 3_600,
  json: options.json,
  measure,
  met: ({ met }) => met,
  print({ startMs, before, after, busyRssMb, grown, ratio, met }) {
    const row = (name: string, { rss, anonymous, cpuPercent }: Rest): void =>
      console.log(`${name.padEnd(24)} ${rss} MB (${anonymous} of it not files), ${cpuPercent} % of a core`);
    console.log(`start → first 200 of /healthz: ${startMs} ms`);
    row("idle after the start", before);
    console.log(`${"under load".padEnd(24)} ${busyRssMb} MB, ${ratio} events to one request of the raw loop`);
    row("idle after the events", after);
    console.log(`${grown} times the memory of the start: ${met ? "as it should be" : "too much, of memory or of CPU"}`);
  },
});
