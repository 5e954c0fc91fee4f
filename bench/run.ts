// `npm run bench -- <name> [options]`: runs one of the benchmarks of this folder, each a script of its own. Without a name:
// those that need nothing but Node, one after the other, each shortened.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Benches that run without a name, with options that let all of it end within ten minutes. */
const ALL: readonly (readonly string[])[] = [
  ["throughput", "--rounds", "1", "--seconds", "1"],
  ["storages", "--storages", "sqlite,filesystem,memory", "--rounds", "2", "--seconds", "1"],
  ["latency", "--seconds", "5"],
  ["fanout", "--rounds", "2"],
  ["elsewhere", "--rounds", "2", "--seconds", "2"],
  ["backlog", "--pending", "100000", "--rounds", "2", "--seconds", "2"],
  ["isolation", "--seconds", "10", "--hostile", "200"],
  ["retention", "--seconds", "4", "--events", "50000"],
  ["memory", "--events", "50000", "--idle", "30"],
];

const fileOf = (name: string): string => join(import.meta.dirname, `${name}.ts`);
const run = (name: string, options: readonly string[]): number =>
  spawnSync(process.execPath, [fileOf(name), ...options], { stdio: "inherit" }).status ?? 1;

const [name, ...options] = process.argv.slice(2);
if (name === undefined) {
  // Each bench reports a limit that a busy machine misses; here it counts only that all of them ran.
  for (const [one = "", ...short] of ALL) {
    process.stderr.write(`\n== ${one} ${short.join(" ")}\n`);
    run(one, short);
  }
  process.exit(0);
}
if (!/^[a-z]+$/.test(name) || name === "run" || !existsSync(fileOf(name))) {
  const names = readdirSync(import.meta.dirname)
    .filter((entry) => entry.endsWith(".ts") && entry !== "run.ts")
    .map((entry) => entry.slice(0, -3));
  console.error(`usage: npm run bench -- [${names.join(" | ")}] [--json] [--seconds N]`);
  process.exit(64);
}
process.exit(run(name, options));
