// `npm run torture -- [--storage sqlite|filesystem|redis|postgres|all] [--seconds N] [--kills N] [--seed S] [--lanes N]
// [--wide N] [--built] [--json]`: a relay is killed, stopped, starved and lied to for a while, and its records are then
// held against what was promised. Ends with 1 when a promise was broken. The seed makes the choices; what happens between
// them is up to the machine. `--lanes`: so many relays at once, which share the kills. `--wide`: subscriptions of one kind
// of event. `--built`: the single executable, which starts twice as fast, is built first.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ordeal, STORAGES, type Ordeal, type StorageName } from "./ordeal.ts";
import { start } from "./process.ts";
import { COMMAND } from "./relay.ts";

const SHOWN = 20;

interface Given {
  readonly storages: readonly StorageName[];
  readonly seconds: number;
  readonly kills?: number;
  readonly seed: number;
  readonly lanes: number;
  readonly wide: number;
  readonly built: boolean;
  readonly json: boolean;
}

const USAGE = `usage: npm run torture -- [--storage ${STORAGES.join("|")}|all] [--seconds N] [--kills N] [--seed S] [--lanes N] [--wide N] [--built] [--json]`;

function usage(problem?: string): never {
  if (problem !== undefined) console.error(problem);
  console.error(USAGE);
  process.exit(64);
}

function parsed() {
  try {
    return parseArgs({
      options: {
        storage: { type: "string", default: "sqlite" },
        seconds: { type: "string", default: "60" },
        kills: { type: "string" },
        seed: { type: "string" },
        lanes: { type: "string", default: "1" },
        wide: { type: "string", default: "60" },
        built: { type: "boolean", default: false },
        json: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
  } catch (error) {
    return usage((error as Error).message);
  }
}

function given(): Given {
  const { values } = parsed();
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  const storages = values.storage === "all" ? STORAGES : STORAGES.filter((name) => name === values.storage);
  const whole = (text: string): number => (/^\d{1,9}$/.test(text) ? Number(text) : Number.NaN);
  const seconds = whole(values.seconds);
  const kills = values.kills === undefined ? undefined : whole(values.kills);
  const seed = values.seed === undefined ? Math.floor(Math.random() * 1e9) : whole(values.seed);
  const [lanes, wide] = [whole(values.lanes), whole(values.wide)];
  const wrong = storages.length === 0 || lanes === 0 || [seconds, kills ?? 0, seed, lanes, wide].some(Number.isNaN);
  if (wrong) usage();
  return { storages, seconds, kills, seed, lanes, wide, built: values.built, json: values.json };
}

function rows(one: Ordeal): readonly (readonly [string, string | number])[] {
  const { deliveries } = one.survey;
  const counts = (all: Readonly<Record<string, number>>): string =>
    Object.entries(all)
      .map(([name, count]) => `${name} ${count}`)
      .join(", ") || "none";
  return [
    ["storage", one.storage],
    ["seed", one.seed],
    ["took", `${(one.tookMs / 1_000).toFixed(1)} s`],
    ["faults", counts(one.faults)],
    ...one.missing.map((text) => ["left out", text] as const),
    ...(one.failovers > 0 ? [["new masters", one.failovers] as const] : []),
    ["acknowledged", one.accepted],
    ["not acknowledged", counts(one.refused)],
    ["stored", one.survey.records["event"] ?? 0],
    ["deliveries", counts(deliveries)],
    ["managed", counts(one.managed)],
    ["requests", `${one.requests}, ${one.extra} of them repeated`],
    [
      "middle wait",
      `${Math.round(one.waitMs.undisturbed)} ms, ${Math.round(one.waitMs.hostile)} ms while all others hang`,
    ],
    ["lost", one.lost],
    ["overdue", one.overdue],
    ["broken promises", one.violations.length],
  ];
}

const { storages, seconds, kills, seed, lanes, wide, built, json } = given();
console.error(`torture: seed ${seed}`);
// Once: enough is enough, and now the verdict. Twice: at once.
const enough = new AbortController();
process.once("SIGINT", () => enough.abort());
// Nothing that it started outlives it.
process.once("SIGTERM", () => process.exit(143));
const command = built ? await build() : undefined;
const all: Ordeal[] = [];
for (const storage of storages) {
  const began = performance.now();
  const one = (lane: number): Promise<Ordeal> => {
    const say = (text: string): void => {
      const seconds = ((performance.now() - began) / 1_000).toFixed(0).padStart(4);
      console.error(`${storage}${lanes === 1 ? "" : ` ${lane + 1}`}: ${seconds} s  ${text}`);
    };
    const own = kills === undefined ? undefined : Math.ceil((kills - lane) / lanes);
    return ordeal({
      storage,
      seconds,
      kills: own,
      seed: seed + lane,
      wide,
      command,
      say,
      signal: enough.signal,
    });
  };
  for (const ended of await Promise.all(Array.from({ length: lanes }, (_, lane) => one(lane)))) {
    all.push(ended);
    if (json) continue;
    for (const [name, value] of rows(ended)) console.log(`${name.padEnd(18)}${value}`);
    for (const text of ended.violations.slice(0, SHOWN)) console.log(`  ${text}`);
    console.log("");
  }
}
if (json) console.log(JSON.stringify(all, null, 2));
process.exit(all.some(({ violations }) => violations.length > 0) ? 1 : 0);

/** The single executable, in a folder of its own. */
async function build(): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), "relay-torture-built-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const out = join(folder, "relay");
  console.error("torture: building");
  const built = start([...COMMAND, "build", "--out", out], {
    cwd: join(import.meta.dirname, "../.."),
    env: process.env,
  });
  await built.gone;
  if (!built.said().includes(out)) throw new Error(`the executable was not built:\n${built.said()}`);
  return [out];
}
