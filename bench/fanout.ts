// Measures the cost of a delivery when an event has 1, 10, 100 or 1,000 of them, beside a request of the raw loop.
import { parseArgs } from "node:util";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { median } from "./throughput/process.ts";
import { meanOf, pass, rawLoop } from "./throughput/rounds.ts";
import { openWorld, WARM_SECONDS } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** Of each width in a round. */
    deliveries: { type: "string", default: "6000" },
    rounds: { type: "string", default: "3" },
    storage: { type: "string", default: "sqlite()" },
  },
});
const deliveries = within(options.deliveries, 1_000, 1_000_000, 6_000);
const rounds = within(options.rounds, 1, 20, 3);
const WIDTHS = [1, 10, 100, 1_000];
/** Longer than any width takes to be published. */
const MOST_S = 120;
const keyOf = (width: number): string => `key_wide_${width}`;

async function measure(folder: string) {
  const { storage } = options;
  const config = `limits: { "*": false }, subscriptions: { perKey: ${Math.max(...WIDTHS)} },`;
  const world = await openWorld({ folder, storage, config });
  say("making the subscriptions …");
  for (const width of WIDTHS) {
    // One secret for all, so that the receiver can check each delivery; a path of its own, so that it can tell them apart.
    const body = (n: number) => ({ url: `${world.url}/${n}`, events: ["bench:event"], secret: world.secret });
    const keyId = keyOf(width);
    await world.relay.subscribeAll(Array.from({ length: width }, (_, n) => ({ keyId, body: body(n) })));
  }
  say("warming up …");
  await pass(world, world.running, WARM_SECONDS);
  const publish = (width: number) => {
    const most = Math.max(1, Math.round(deliveries / width));
    return pass(world, world.running, MOST_S, { keyId: keyOf(width), fanout: width, most });
  };
  const taken = new Map(WIDTHS.map((width) => [width, [] as { perSecond: number; cpu: number; ratio: number }[]]));
  let repeated = 0;
  let before = await rawLoop(world, 2);
  for (let i = 0; i < rounds; i++) {
    say(`round ${i + 1} of ${rounds} …`);
    const passed = [];
    for (const width of WIDTHS) passed.push({ width, full: await publish(width) });
    const after = await rawLoop(world, 2);
    const raw = meanOf(before, after);
    for (const { width, full } of passed) {
      const perSecond = full.eventsPerSecond * width;
      taken.get(width)?.push({ perSecond, cpu: full.cpu / width, ratio: perSecond / raw.perSecond });
      repeated += full.repeated;
    }
    before = after;
  }
  await world.end();
  const widths = [...taken].map(([width, all]) => {
    const rates = all.map(({ perSecond }) => perSecond);
    return {
      width,
      deliveriesPerSecond: round(median(rates)),
      least: round(Math.min(...rates)),
      most: round(Math.max(...rates)),
      ratio: round(median(all.map(({ ratio }) => ratio)), 2),
      cpuMicrosecondsPerDelivery: round(median(all.map(({ cpu }) => cpu))),
    };
  });
  return { storage, deliveries, repeated, widths };
}

await benchRun({
  longestS: 300 + rounds * 120,
  json: options.json,
  measure,
  met: ({ repeated }) => repeated === 0,
  print({ widths }) {
    console.table(
      widths.map(({ width, deliveriesPerSecond, least, most, ratio, cpuMicrosecondsPerDelivery }) => ({
        "deliveries an event": width,
        "deliveries/s": deliveriesPerSecond,
        "of the rounds": `${least} … ${most}`,
        "to the raw loop": ratio,
        "µs CPU a delivery": cpuMicrosecondsPerDelivery,
      })),
    );
  },
});
