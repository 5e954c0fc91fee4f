// `npm run bench -- <name> [options]`: runs one of the benchmarks of this folder, each a script of its own.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

const [name, ...options] = process.argv.slice(2);
const file = join(import.meta.dirname, `${name ?? ""}.ts`);
if (name === undefined || !/^[a-z]+$/.test(name) || name === "run" || !existsSync(file)) {
  const names = readdirSync(import.meta.dirname)
    .filter((entry) => entry.endsWith(".ts") && entry !== "run.ts")
    .map((entry) => entry.slice(0, -3));
  console.error(`usage: npm run bench -- <${names.join(" | ")}> [--json] [--seconds N]`);
  process.exit(64);
}
process.exit(spawnSync(process.execPath, [file, ...options], { stdio: "inherit" }).status ?? 1);
