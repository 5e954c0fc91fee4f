// A file that a library reads beside itself is a part of the executable.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rolldown } from "rolldown";
import { expect, it } from "vitest";
import { inlined } from "../../cli/package/pieces.ts";
import { testFolder } from "../support/folder.ts";

it("stands in the bundle as its bytes, byte for byte", async () => {
  const folder = testFolder();
  const library = join(folder, "node_modules/library");
  mkdirSync(join(library, "dist"), { recursive: true });
  const bytes = Buffer.from([0, 1, 2, 0xff, 0x24, 0x26]);
  writeFileSync(join(library, "dist/native.wasm"), bytes);
  const read = `readFileSync(new URL('../dist/native.wasm', import.meta.url))`;
  writeFileSync(
    join(library, "dist/index.js"),
    `import { readFileSync } from "node:fs";\nexport const wasm = ${read};\n`,
  );
  writeFileSync(
    join(library, "package.json"),
    JSON.stringify({ name: "library", type: "module", main: "dist/index.js" }),
  );
  const input = join(folder, "main.mjs");
  writeFileSync(input, `import { wasm } from "library";\nglobalThis.inlinedForTheTest = wasm;\n`);
  await using built = await rolldown({ input, platform: "node", plugins: [inlined] });
  const { output } = await built.generate({ format: "esm" });
  expect(output[0].code).not.toContain("native.wasm");
  const file = join(folder, "out.mjs");
  writeFileSync(file, output[0].code);
  await import(file);
  expect((globalThis as { inlinedForTheTest?: Buffer }).inlinedForTheTest).toEqual(bytes);
});
