// Measures the default config beside a bare relay that stores the same rows, in one run: publish over HTTP, store with fsync,
// sign, deliver over TLS, check. Every process is real and of its own; all of them share the machine's
// cores. Each stands beside the others from the start, and they are measured in turns.
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { CONNECTIONS, type Form, request } from "./throughput/event.ts";
import { memoryOf } from "./throughput/process.ts";
import { pass, turn, type Turn, type TurnOptions } from "./throughput/rounds.ts";
import { BARE_STORED, inTurns, type Lane, openLanes, otherRelay, RELAY } from "./throughput/side-by-side.ts";
import { stations } from "./throughput/stations.ts";
import { figuresOf, type Row, tableOf } from "./throughput/table.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** Puts what it prints into the README. */
    write: { type: "boolean", default: false },
    /** Of each turn. */
    seconds: { type: "string", default: "2" },
    rounds: { type: "string", default: "3" },
    /** Of load, before the first turn, s. */
    warm: { type: "string", default: "10" },
    /** Only these phases, such as `full,lists`. */
    only: { type: "string" },
    storage: { type: "string", default: "sqlite()" },
    /** Content of a request: `ids` for an event with an id of its own, or `single`. */
    form: { type: "string", default: "ids" },
    /** Folder of another checkout, whose relay is measured beside this one's. */
    relay: { type: "string" },
    /** Folder for CPU profiles of the relay: what each station takes of an event is printed then. */
    profile: { type: "string" },
  },
});
const seconds = within(options.seconds, 1, 120, 2);
const rounds = within(options.rounds, 1, 20, 3);
const warm = within(options.warm, 1, 120, 10);
const form: Form = options.form === "single" ? "single" : "ids";
const README = join(import.meta.dirname, "../README.md");

interface Phase {
  readonly name: string;
  readonly title: string;
  readonly turn: TurnOptions;
  /** Times that its turns are as long as the others. @default 1 */
  readonly longer?: number;
  /** The bare relay takes no lists. */
  readonly bare?: false;
  /** Seconds of this load before the first turn. */
  readonly warm?: number;
  readonly rows: readonly Row[];
}

/** Slow receivers come last: a relay that has met one treats it otherwise for a while. */
const PHASES: readonly Phase[] = [
  { name: "full", title: "full speed", turn: { form, settle: 1 }, rows: ["delivered", "cpu", "lag"] },
  {
    name: "lists",
    title: "lists of 100, 8 connections",
    turn: { form: "batch", connections: 8, settle: 1 },
    bare: false,
    warm: 1,
    rows: ["accepted", "delivered", "lag"],
  },
  { name: "steady", title: "1,000/s", turn: { form, rate: 1_000, settle: 1 }, rows: ["cpu", "lag"] },
  { name: "rare", title: "50/s", turn: { form, rate: 50, settle: 1 }, longer: 2, rows: ["cpu", "lag"] },
  ...[50, 200].map((delayMs): Phase => ({
    name: `late${delayMs}`,
    title: `600/s, answers after ${delayMs} ms`,
    turn: { form, rate: 600, delayMs, settle: 3 },
    rows: ["meanwhile", "lag"],
  })),
];

async function phaseOf({ name, title, turn: how, longer = 1, bare, warm: first, rows }: Phase, all: readonly Lane[]) {
  const lanes = bare === false ? all.filter(({ script }) => script === undefined) : all;
  say(`${title}, ${rounds} rounds …`);
  if (first !== undefined) for (const { world } of lanes) await pass(world, world.running, first, how);
  const turns = await inTurns(lanes, rounds, ({ world }) => turn(world, world.running, seconds * longer, how));
  const figures = lanes.map((lane, at) => {
    // The bare relay is what others are compared with.
    const others = lane.script === undefined ? lanes.filter((other) => other !== lane) : [];
    const of = (other: Lane): readonly Turn[] => turns[lanes.indexOf(other)] ?? [];
    return figuresOf(lane.name, turns[at] ?? [], Object.fromEntries(others.map((one) => [one.name, of(one)])));
  });
  return { name, title, rows, figures, turns };
}

async function measure(folder: string) {
  const { storage, profile } = options;
  const only = options.only?.split(",");
  const subjects = [RELAY, ...otherRelay(options.relay), BARE_STORED];
  const lanes = await openLanes(folder, subjects, { form, warm, storage, profile });
  const phases = [];
  for (const phase of PHASES.filter(({ name }) => only?.includes(name) ?? true))
    phases.push(await phaseOf(phase, lanes));
  const relays = [];
  for (const { name, world } of lanes) {
    const { rss } = await memoryOf(world.running.child.pid as number);
    relays.push({ name, startMs: round(world.running.startMs), busyRssMb: round(rss, 1) });
    await world.end();
  }
  const sum = (all: readonly Turn[], figure: "all" | "missing" | "repeated" | "bad"): number =>
    all.reduce((total, one) => total + one[figure], 0);
  const turns = phases.flatMap((phase) => phase.turns.flat());
  const own = phases.flatMap((phase) => phase.turns[0] ?? []);
  const profiled = (lanes[0]?.warmed ?? 0) + sum(own, "all");
  const byStation = profile === undefined ? undefined : await stations(profile, profiled);
  return {
    cores: availableParallelism(),
    node: process.version,
    storage,
    form,
    connections: CONNECTIONS,
    bodyBytes: Buffer.byteLength(request(form)),
    seconds,
    rounds,
    events: sum(turns, "all"),
    missing: sum(turns, "missing"),
    repeated: sum(turns, "repeated"),
    bad: sum(turns, "bad"),
    relays,
    phases: phases.map(({ name, title, rows, figures }) => ({ name, title, rows, figures })),
    ...(byStation && { stations: Object.fromEntries([...byStation].map(([name, us]) => [name, round(us, 1)])) }),
  };
}

type Result = Awaited<ReturnType<typeof measure>>;

function textOf(result: Result): string {
  const { storage, form: of, connections, bodyBytes, cores, events, missing, repeated, bad } = result;
  const stationLines = Object.entries(result.stations ?? {}).map(([name, us]) => `\n  ${name}, µs an event: ${us}`);
  return `${storage}, default config, ${connections} connections, ${bodyBytes}-byte events (${of}), ${cores} cores, ${result.rounds} rounds
${events} events: ${missing} missing, ${repeated} repeated, ${bad} with a wrong signature or body

${tableOf(result)}${stationLines.join("")}`;
}

await benchRun({
  longestS: 120 + (warm + 30) * 3 + rounds * PHASES.length * 3 * (seconds * 2 + 15),
  json: options.json,
  measure,
  met: ({ missing, repeated, bad }) => missing + repeated + bad === 0,
  print(result) {
    const text = textOf(result);
    console.log(text);
    if (!options.write) return;
    const block = /(?<=\n## Numbers\n[^#]*```text\n)[^`]*(?=\n```)/;
    writeFileSync(README, readFileSync(README, "utf8").replace(block, text));
  },
});
