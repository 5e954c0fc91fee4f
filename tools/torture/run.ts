// `npm run torture -- [--storage sqlite|filesystem|redis|all] [--seconds N] [--kills N] [--seed S] [--json]`: a relay is killed,
// stopped, starved and lied to for a while, and its records are then held against what was promised. Ends with 1 when a
// promise was broken. The seed makes the choices; what happens between them is up to the machine.
import { parseArgs } from "node:util";
import { ordeal, STORAGES, type Ordeal, type StorageName } from "./ordeal.ts";

const SHOWN = 20;

function given(): { storages: readonly StorageName[]; seconds: number; kills?: number; seed: number; json: boolean } {
  const { values } = parseArgs({
    options: {
      storage: { type: "string", default: "sqlite" },
      seconds: { type: "string", default: "60" },
      kills: { type: "string" },
      seed: { type: "string" },
      json: { type: "boolean", default: false },
    },
  });
  const storages = values.storage === "all" ? STORAGES : STORAGES.filter((name) => name === values.storage);
  const whole = (text: string): number => (/^\d{1,9}$/.test(text) ? Number(text) : Number.NaN);
  const seconds = whole(values.seconds);
  const kills = values.kills === undefined ? undefined : whole(values.kills);
  const seed = values.seed === undefined ? Math.floor(Math.random() * 1e9) : whole(values.seed);
  if (storages.length === 0 || [seconds, kills ?? 0, seed].some(Number.isNaN)) {
    console.error(
      `usage: npm run torture -- [--storage ${STORAGES.join("|")}|all] [--seconds N] [--kills N] [--seed S] [--json]`,
    );
    process.exit(64);
  }
  return { storages, seconds, kills, seed, json: values.json };
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

const { storages, seconds, kills, seed, json } = given();
console.error(`torture: seed ${seed}`);
// Once: enough is enough, and now the verdict. Twice: at once.
const enough = new AbortController();
process.once("SIGINT", () => enough.abort());
// Nothing that it started outlives it.
process.once("SIGTERM", () => process.exit(143));
let broken = false;
const all: Ordeal[] = [];
for (const storage of storages) {
  const began = performance.now();
  const say = (text: string): void =>
    console.error(`${storage}: ${((performance.now() - began) / 1_000).toFixed(0).padStart(4)} s  ${text}`);
  const one = await ordeal({ storage, seconds, kills, seed, say, signal: enough.signal });
  broken ||= one.violations.length > 0;
  all.push(one);
  if (json) continue;
  for (const [name, value] of rows(one)) console.log(`${name.padEnd(18)}${value}`);
  for (const text of one.violations.slice(0, SHOWN)) console.log(`  ${text}`);
  console.log("");
}
if (json) console.log(JSON.stringify(all, null, 2));
process.exit(broken ? 1 : 0);
