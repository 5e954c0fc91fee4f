// What an event must cost at least: bare relays on the same libraries, without and with a storage, beside the relay and the
// raw loop, in turns, in one run.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import type { Form } from "./throughput/event.ts";
import { median } from "./throughput/process.ts";
import { pass, type Passed, type Raw, rawLoop } from "./throughput/rounds.ts";
import { openWorld, type OpenWorld } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** Of each turn. */
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "3" },
    form: { type: "string", default: "ids" },
  },
});
const seconds = within(options.seconds, 1, 30, 3);
const rounds = within(options.rounds, 1, 20, 3);
const form: Form = options.form === "single" ? "single" : "ids";
const WARM_S = 8;

const SUBJECTS = [
  { name: "bare, nothing stored", script: "floor/wire.ts" },
  { name: "bare, stored", script: "floor/stored.ts" },
  { name: "the relay", script: undefined },
] as const;

async function measure(folder: string) {
  const worlds: OpenWorld[] = [];
  for (const [i, { name, script }] of SUBJECTS.entries()) {
    say(`${name}: warming up …`);
    const own = join(folder, String(i));
    await mkdir(own);
    const world = await openWorld({
      folder: own,
      connections: 64,
      storage: "sqlite()",
      logLevel: "info",
      ...(script !== undefined && { script: join(import.meta.dirname, script) }),
    });
    await pass(world, world.running, WARM_S, { form });
    worlds.push(world);
  }
  const raws: Raw[] = [];
  const passes = SUBJECTS.map((): Passed[] => []);
  for (let i = 0; i < rounds; i++) {
    say(`round ${i + 1} of ${rounds} …`);
    raws.push(await rawLoop(worlds[0] as OpenWorld, seconds));
    for (const [at, world] of worlds.entries()) passes[at]?.push(await pass(world, world.running, seconds, { form }));
  }
  for (const world of worlds) await world.end();
  const raw = { perSecond: median(raws.map((one) => one.perSecond)), cpu: median(raws.map((one) => one.cpu)) };
  return {
    form,
    rounds,
    rawRequestsPerSecond: round(raw.perSecond),
    rawCpuMicrosecondsPerRequest: round(raw.cpu, 1),
    rows: SUBJECTS.map(({ name }, at) => {
      const took = passes[at] as Passed[];
      const cpu = median(took.map((one) => one.cpu));
      return {
        name,
        cpuMicrosecondsPerEvent: round(cpu, 1),
        cpuRatio: round(median(took.map((one, i) => one.cpu / (raws[i] as Raw).cpu)), 2),
        ratio: round(median(took.map((one, i) => one.eventsPerSecond / (raws[i] as Raw).perSecond)), 2),
      };
    }),
  };
}

await benchRun({
  longestS: 120 + SUBJECTS.length * (WARM_S + 10) + rounds * (SUBJECTS.length + 1) * (seconds + 6),
  json: options.json,
  measure,
  print({ rawRequestsPerSecond, rawCpuMicrosecondsPerRequest, rows }) {
    console.log(`raw loop: ${rawRequestsPerSecond} requests/s, ${rawCpuMicrosecondsPerRequest} µs CPU a request`);
    console.table(
      rows.map(({ name, cpuMicrosecondsPerEvent, cpuRatio, ratio }) => ({
        "": name,
        "µs CPU an event": cpuMicrosecondsPerEvent,
        "CPU to the raw loop": cpuRatio,
        "rate to the raw loop": ratio,
      })),
    );
  },
});
