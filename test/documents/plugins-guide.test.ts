// The harnesses of docs/plugins.md, run as they stand: each has all laws of its port.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const page = readFileSync(join(root, "docs/plugins.md"), "utf8");
const harnesses = [...page.matchAll(/^```ts law\n([\s\S]*?)^```$/gm)].map(([, code = ""]) => code);

const SCAFFOLDS = ["source", "queue", "bus"] as const;

// Inside the project, so that libraries are found, where neither git nor the linter looks.
mkdirSync(join(root, "dist"), { recursive: true });
const folder = mkdtempSync(join(root, "dist/harnesses-"));
afterAll(() => rmSync(folder, { recursive: true }));

it("shows a harness for a route, a queue and a connection", () => {
  expect(harnesses.map((code) => /^describe\w+/m.exec(code)?.[0])).toEqual([
    "describeSource",
    "describeSource",
    "describeTransport",
  ]);
});

it("shows the tests that the scaffolds of a queue and a bus have", () => {
  const tests = ["queue", "bus"].map((kind) =>
    readFileSync(join(root, `examples/plugin-${kind}/test/index.test.ts`), "utf8"),
  );
  expect(harnesses.slice(1)).toEqual(tests);
});

for (const [i, code] of harnesses.entries()) {
  const own = join(folder, String(i));
  cpSync(join(root, `examples/plugin-${SCAFFOLDS[i]}/src`), join(own, "src"), { recursive: true });
  mkdirSync(join(own, "test"));
  const file = join(own, "test/harness.ts");
  writeFileSync(file, code);
  describe(`harness ${i + 1} of docs/plugins.md`, async () => {
    await import(pathToFileURL(file).href);
  });
}
