// The harnesses of docs/plugins.md, run as they stand: each has all laws of its port.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const page = readFileSync(join(root, "docs/plugins.md"), "utf8");
const harnesses = [...page.matchAll(/^```ts law\n([\s\S]*?)^```$/gm)].map(([, code = ""]) => code);

// Inside the project, so that libraries are found, where neither git nor the linter looks.
mkdirSync(join(root, "dist"), { recursive: true });
const folder = mkdtempSync(join(root, "dist/harnesses-"));
cpSync(join(root, "examples/plugin-source/src"), join(folder, "src"), { recursive: true });
mkdirSync(join(folder, "test"));
afterAll(() => rmSync(folder, { recursive: true }));

it("shows a harness for a route, a queue and a connection", () => {
  expect(harnesses.map((code) => /^describe\w+/m.exec(code)?.[0])).toEqual([
    "describeSource",
    "describeSource",
    "describeTransport",
  ]);
});

for (const [i, code] of harnesses.entries()) {
  const file = join(folder, "test", `harness-${i}.ts`);
  writeFileSync(file, code);
  describe(`harness ${i + 1} of docs/plugins.md`, async () => {
    await import(pathToFileURL(file).href);
  });
}
