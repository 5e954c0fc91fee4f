// The door of the package: what it hands out, and that opening it loads no library.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import * as door from "../../config/index.ts";

const SCRIPT = `import { registerHooks } from "node:module";
const loaded = [];
registerHooks({ resolve(specifier, context, next) {
  const found = next(specifier, context);
  if (found.url.includes("/node_modules/")) loaded.push(specifier);
  return found;
} });
await import(process.argv[1]);
console.log(JSON.stringify(loaded));`;

it("loads no library when it is imported", async () => {
  const index = new URL("../../config/index.ts", import.meta.url).href;
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", SCRIPT, index]);
  expect(JSON.parse(stdout)).toEqual([]);
});

it("hands out every factory, and the errors that a plug-in may throw", () => {
  const names = ["defineRelay", "memory", "sqlite", "filesystem", "redis", "unstorage", "http", "spool", "https"];
  for (const name of [
    ...names,
    "accounts",
    "jwt",
    "otlp",
    "fromPostgres",
    "fromRedisStream",
    "cron",
    "replay",
    "retention",
    "Problem",
    "StartError",
    "StorageError",
  ])
    expect(door).toHaveProperty(name);
});
