// Measures the cost of being watched: the relay with log and figures beside one without either, in turns, in one run. Each round has
// processes of its own: V8 compiles one a little better than the next, by some percent, for as long as it lives.
import { mkdtemp } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Clock } from "../core/ports/clock.ts";
import type { Storage } from "../core/ports/storage.ts";
import { createMetrics } from "../core/runtime/observability/index.ts";
import { watchedStorage } from "../core/runtime/storage-watch.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { median } from "./throughput/process.ts";
import { pass } from "./throughput/rounds.ts";
import { openWorld, type OpenWorld, WARM_SECONDS } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** Of each turn; a round has two for each relay. */
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "4" },
    storage: { type: "string", default: "sqlite()" },
  },
});
const seconds = within(options.seconds, 1, 60, 3);
const rounds = within(options.rounds, 1, 20, 4);
const BARE = join(import.meta.dirname, "observers/bare.ts");

interface Measured {
  readonly eventsPerSecond: number;
  readonly cpu: number;
}

const mean = (turns: readonly Measured[]): Measured => {
  const of = (figure: keyof Measured): number => turns.reduce((sum, one) => sum + one[figure], 0) / turns.length;
  return { eventsPerSecond: of("eventsPerSecond"), cpu: of("cpu") };
};

/** The storage's decorator stands in both relays, so it is measured by itself: µs a commit. */
async function watchCost(): Promise<number> {
  const clock: Clock = { now: Date.now, monotonic: () => performance.now(), sleep: () => Promise.resolve() };
  const done = Promise.resolve();
  const plain = { queue: { settle: () => done }, commit: () => done } as unknown as Storage;
  const metrics = createMetrics();
  const { storage: watched } = watchedStorage(plain, clock, metrics);
  const change = [{ op: "delete", key: "a" }] as const;
  const time = async (storage: Storage): Promise<number> => {
    const from = performance.now();
    for (let i = 0; i < 500_000; i++) await storage.commit(change);
    return ((performance.now() - from) * 1_000) / 500_000;
  };
  await time(watched);
  const cost = (await time(watched)) - (await time(plain));
  metrics.dispose();
  return cost;
}

async function measure(folder: string) {
  const turns = { full: [] as Measured[], bare: [] as Measured[] };
  for (let i = 0; i < rounds; i++) {
    say(`round ${i + 1} of ${rounds} …`);
    const of = async (name: string, script?: string): Promise<OpenWorld> =>
      openWorld({ folder: await mkdtemp(join(folder, `${name}-`)), storage: options.storage, script });
    const worlds = { full: await of("full"), bare: await of("bare", BARE) };
    // The order changes, so that neither profits from what the machine does meanwhile.
    const order = i % 2 === 0 ? (["full", "bare"] as const) : (["bare", "full"] as const);
    for (const name of order) await pass(worlds[name], worlds[name].running, WARM_SECONDS);
    const made = { full: [] as Measured[], bare: [] as Measured[] };
    for (const name of [...order, ...order.toReversed()]) {
      made[name].push(await pass(worlds[name], worlds[name].running, seconds));
    }
    for (const name of order) turns[name].push(mean(made[name]));
    for (const name of order) await worlds[name].end();
  }
  const ofAll = (name: "full" | "bare", figure: keyof Measured): number =>
    median(turns[name].map((one) => one[figure]));
  const toBare = (figure: keyof Measured): number =>
    median(turns.full.map((one, i) => one[figure] / (turns.bare[i]?.[figure] ?? Number.NaN)));
  const [cpu, throughput] = [toBare("cpu"), toBare("eventsPerSecond")];
  return {
    cores: availableParallelism(),
    node: process.version,
    storage: options.storage,
    rounds,
    watched: {
      eventsPerSecond: round(ofAll("full", "eventsPerSecond"), 0),
      cpuMicroseconds: round(ofAll("full", "cpu"), 1),
    },
    blind: {
      eventsPerSecond: round(ofAll("bare", "eventsPerSecond"), 0),
      cpuMicroseconds: round(ofAll("bare", "cpu"), 1),
    },
    cpuRatio: round(cpu, 3),
    throughputRatio: round(throughput, 3),
    storageWatchMicroseconds: round(await watchCost(), 2),
  };
}

await benchRun({
  longestS: (seconds * 8 + WARM_SECONDS * 4 + 10) * rounds + 30,
  json: options.json,
  measure,
  print(result) {
    const row = (name: string, value: string): void => console.log(`${name.padEnd(46)} ${value}`);
    const { watched, blind } = result;
    row(
      "with log (info) and figures, events/s",
      `${watched.eventsPerSecond} (${watched.cpuMicroseconds} µs CPU an event)`,
    );
    row("without either, events/s", `${blind.eventsPerSecond} (${blind.cpuMicroseconds} µs CPU an event)`);
    row("throughput, watched : blind", String(result.throughputRatio));
    row("CPU an event, watched : blind", String(result.cpuRatio));
    row("watching the storage, µs a commit (in both)", String(result.storageWatchMicroseconds));
  },
});
