// Measures the least that an event must cost: bare relays on the same libraries, without and with a storage, beside the relay and the
// raw loop, in turns, in one run.
import { parseArgs } from "node:util";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import type { Form } from "./throughput/event.ts";
import { median } from "./throughput/process.ts";
import { pass, rawLoop } from "./throughput/rounds.ts";
import { BARE_STORED, BARE_WIRE, inTurns, openLanes, otherRelay, RELAY } from "./throughput/side-by-side.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** Of each turn. */
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "3" },
    form: { type: "string", default: "ids" },
    /** Folder of another checkout, whose relay is measured beside this one's. */
    relay: { type: "string" },
  },
});
const seconds = within(options.seconds, 1, 30, 3);
const rounds = within(options.rounds, 1, 20, 3);
const form: Form = options.form === "single" ? "single" : "ids";

async function measure(folder: string) {
  const lanes = await openLanes(folder, [BARE_WIRE, BARE_STORED, ...otherRelay(options.relay), RELAY], { form });
  const [first] = lanes;
  if (first === undefined) throw new Error("there is nothing to measure");
  say(`${rounds} rounds …`);
  const turns = await inTurns([undefined, ...lanes], rounds, async (lane) => {
    if (lane === undefined) return rawLoop(first.world, seconds);
    const { eventsPerSecond: perSecond, cpu } = await pass(lane.world, lane.world.running, seconds, {
      form,
      settle: 1,
    });
    return { perSecond, cpu };
  });
  for (const { world } of lanes) await world.end();
  const [raws = []] = turns;
  const rows = ["raw loop, a request", ...lanes.map(({ name }) => name)].map((name, at) => {
    const took = turns[at] ?? [];
    const toRaw = (figure: "cpu" | "perSecond"): number =>
      round(median(took.map((one, i) => one[figure] / (raws[i]?.[figure] ?? Number.NaN))), 2);
    const [perSecond, cpu] = [median(took.map((one) => one.perSecond)), median(took.map((one) => one.cpu))];
    return {
      name,
      perSecond: round(perSecond),
      cpuMicrosecondsPerEvent: round(cpu, 1),
      cpuRatio: toRaw("cpu"),
      ratio: toRaw("perSecond"),
    };
  });
  return { form, rounds, rows };
}

await benchRun({
  longestS: 300 + rounds * 5 * (seconds + 20),
  json: options.json,
  measure,
  print: ({ rows }) =>
    console.table(
      rows.map(({ name, perSecond, cpuMicrosecondsPerEvent, cpuRatio, ratio }) => ({
        "": name,
        "events/s": perSecond,
        "µs CPU an event": cpuMicrosecondsPerEvent,
        "CPU to the raw loop": cpuRatio,
        "rate to the raw loop": ratio,
      })),
    ),
});
