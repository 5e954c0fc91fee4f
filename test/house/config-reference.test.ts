// docs/config.md is what its maker would write today, and names every variable that the relay reads.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { VARIABLES } from "../../tools/config-reference/variables.ts";

const root = resolve(import.meta.dirname, "../..");

it("is up to date with the schema, the defaults and the docstrings", async () => {
  await promisify(execFile)(process.execPath, [join(root, "tools/config-reference.ts"), "--check"]);
});

it("names every variable of the environment, and no others", () => {
  const source = readFileSync(join(root, "config/environment.ts"), "utf8");
  const read = [...source.matchAll(/\b(RELAY_[A-Z_]+)(?::|"\])/g)].map(([, name]) => name as string);
  expect(Object.keys(VARIABLES).toSorted()).toEqual([...new Set(read)].toSorted());
});

it("speaks of values in the relay's own words", () => {
  expect(readFileSync(join(root, "docs/config.md"), "utf8")).not.toMatch(/Invalid input|Too (?:small|big)|, received /);
});
