// Measures the cost of publishing while 10, 1,000 and 100,000 subscriptions stand elsewhere: on other keys, for other events. A relay
// for each number; they take turns, and those whose turn it is not stand still.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { SUBSCRIPTION } from "../core/model/schema.ts";
import type { Change } from "../core/ports/storage.ts";
import { sqlite } from "../plugins/storage/sqlite.ts";
import { context } from "./queue/surroundings.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { memoryOf, median } from "./throughput/process.ts";
import { pass, rawLoop, type Turn } from "./throughput/rounds.ts";
import { openWorld, type OpenWorld } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "4" },
  },
});
const seconds = within(options.seconds, 1, 60, 3);
const rounds = within(options.rounds, 1, 50, 4);
const COUNTS = [10, 1_000, 100_000];
const PER_KEY = 50;
const PAGE = 1_000;
const WARM_S = 6;
/** Must be reached: CPU of an event beside most of them to that beside fewest. */
const LIMIT = 1.1;

/** Stores copies of the world's own subscription for other keys, as their creation would have. */
async function fill(folder: string, count: number): Promise<void> {
  const storage = await sqlite().setup(context(join(folder, "data")));
  const [own] = await storage.range("subscription:", { limit: 1 });
  if (own === undefined) throw new Error("there is no subscription to copy");
  const like = SUBSCRIPTION.orThrow(own.value, own.key);
  for (let made = 0; made < count;) {
    const changes: Change[] = [];
    for (; made < count && changes.length < PAGE; made++) {
      const [keyId, id] = [`key_else_${Math.floor(made / PER_KEY)}`, `sub_${String(made).padStart(26, "0")}`];
      changes.push({
        op: "put",
        key: SUBSCRIPTION.key({ keyId, id }),
        value: SUBSCRIPTION.write({ ...like, keyId, id }),
      });
    }
    await storage.commit(changes);
  }
  await storage.dispose();
}

async function prepared(folder: string, count: number): Promise<OpenWorld> {
  const dir = join(folder, String(count));
  await mkdir(dir);
  const world = await openWorld({ folder: dir });
  await world.running.stop();
  say(`${count.toLocaleString("en")} subscriptions elsewhere …`);
  await fill(dir, count);
  await world.restart();
  await pass(world, world.running, WARM_S, { form: "ids" });
  world.running.child.kill("SIGSTOP");
  return world;
}

async function turn(world: OpenWorld): Promise<Turn> {
  world.running.child.kill("SIGCONT");
  // Connections are made again, and what stood still has caught up.
  await pass(world, world.running, 1, { form: "ids" });
  const passed = await pass(world, world.running, seconds, { form: "ids" });
  world.running.child.kill("SIGSTOP");
  return passed;
}

async function measure(folder: string) {
  const worlds: { readonly count: number; readonly world: OpenWorld; readonly startMs: number }[] = [];
  for (const count of COUNTS) {
    const world = await prepared(folder, count);
    worlds.push({ count, world, startMs: world.running.startMs });
  }
  const taken: Turn[][] = [];
  for (let i = 0; i < rounds; i++) {
    say(`round ${i + 1} of ${rounds} …`);
    const passed = new Map<number, Turn>();
    // Who begins changes, so that a machine that grows slower favours nobody.
    for (const { count, world } of i % 2 === 0 ? worlds : worlds.toReversed()) passed.set(count, await turn(world));
    taken.push(COUNTS.map((count) => passed.get(count) as Turn));
  }
  const [{ world: first }] = worlds as [(typeof worlds)[number]];
  const raw = await rawLoop(first, seconds);
  const rows = [];
  for (const [n, { count, world, startMs }] of worlds.entries()) {
    world.running.child.kill("SIGCONT");
    const { rss } = await memoryOf(world.running.child.pid as number);
    const of = (figure: (passed: Turn, least: Turn) => number): number =>
      median(taken.map((one) => figure(one[n] as Turn, one[0] as Turn)));
    rows.push({
      subscriptions: count,
      eventsPerSecond: round(of(({ eventsPerSecond }) => eventsPerSecond)),
      toRawLoop: round(
        of(({ eventsPerSecond }) => eventsPerSecond / raw.perSecond),
        2,
      ),
      cpuMicrosecondsPerEvent: round(of(({ cpu }) => cpu)),
      cpuRatio: round(
        of(({ cpu }, least) => cpu / least.cpu),
        2,
      ),
      startMs: round(startMs),
      rssMb: round(rss, 1),
      repeated: taken.reduce((sum, one) => sum + (one[n]?.repeated ?? 0), 0),
    });
  }
  for (const { world } of worlds) await world.end();
  return { rows, met: rows.every(({ cpuRatio, repeated }) => cpuRatio <= LIMIT && repeated === 0) };
}

await benchRun({
  longestS: 600,
  json: options.json,
  measure,
  met: ({ met }) => met,
  print({ rows, met }) {
    console.table(
      rows.map((row) => ({
        "subscriptions elsewhere": row.subscriptions,
        "events/s": row.eventsPerSecond,
        "to the raw loop": row.toRawLoop,
        "µs CPU an event": row.cpuMicrosecondsPerEvent,
        "CPU to the first": row.cpuRatio,
        "start, ms": row.startMs,
        "memory, MB": row.rssMb,
      })),
    );
    console.log(met ? "as it should be" : `an event costs more than ${LIMIT} times as much, or was repeated`);
  },
});
