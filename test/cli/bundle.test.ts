// Reads the bundle that `relay build` puts into an executable.
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { rolldown } from "rolldown";
import { expect, it } from "vitest";
import { bundle } from "../../cli/package/bundle.ts";
import { optionalLibraries } from "../../cli/package/optional-libraries.ts";
import { inlined, missing } from "../../cli/package/pieces.ts";
import { testFolder } from "../support/folder.ts";

it("a package gives its file for `require` to those who require it", async () => {
  const config = join(testFolder(), "relay.config.ts");
  const source = 'fromPostgres({ url: "postgres://127.0.0.1/shop" })';
  await writeFile(
    config,
    `import { defineRelay, fromPostgres } from "relaybox";\nexport default defineRelay({ sources: [${source}] });\n`,
  );
  const { files } = await bundle(resolve(import.meta.dirname, "../.."), config);
  // pg makes a class of what it requires from here. The file for `import` is no class.
  const pool = files.filter((file) => file.includes("node_modules/pg-pool/"));
  expect(pool.map((file) => file.split("pg-pool/")[1])).toEqual(["index.js"]);
});

it("a client that is not installed is left out, and loading it says so", async () => {
  const root = testFolder();
  const file = join(root, "plugins/source/thing.ts");
  await mkdir(join(root, "config"));
  await mkdir(join(root, "plugins/source"), { recursive: true });
  await writeFile(join(root, "config/index.ts"), 'export { fromThing } from "../plugins/source/thing.ts";\n');
  await writeFile(file, 'export const fromThing = () => import("@absent/client");\n');
  const { plugin, found } = await optionalLibraries(root);
  const built = await rolldown({ input: file, cwd: root, platform: "node", plugins: [plugin, missing(root)] });
  const { output } = await built.generate({ format: "cjs", codeSplitting: false });
  await built.close();
  expect([...found]).toEqual([]);
  expect(output[0].code).toContain("@absent/client is not part of this executable");
});

it("a file that a library reads beside itself stands in the bundle, byte for byte", async () => {
  const folder = testFolder();
  const library = join(folder, "node_modules/library");
  await mkdir(join(library, "dist"), { recursive: true });
  const bytes = Buffer.from([0, 1, 2, 0xff, 0x24, 0x26]);
  await writeFile(join(library, "dist/native.wasm"), bytes);
  const read = `readFileSync(new URL('../dist/native.wasm', import.meta.url))`;
  await writeFile(
    join(library, "dist/index.js"),
    `import { readFileSync } from "node:fs";\nexport const wasm = ${read};\n`,
  );
  await writeFile(join(library, "package.json"), '{ "name": "library", "type": "module", "main": "dist/index.js" }');
  const input = join(folder, "main.mjs");
  await writeFile(input, `import { wasm } from "library";\nglobalThis.inlinedForTheTest = wasm;\n`);
  await using built = await rolldown({ input, platform: "node", plugins: [inlined] });
  const { output } = await built.generate({ format: "esm" });
  expect(output[0].code).not.toContain("native.wasm");
  const file = join(folder, "out.mjs");
  await writeFile(file, output[0].code);
  await import(file);
  expect((globalThis as { inlinedForTheTest?: Buffer }).inlinedForTheTest).toEqual(bytes);
});
