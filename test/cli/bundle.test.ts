// What `relay build` puts into an executable, before it is one.
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { bundle } from "../../core/cli/package/bundle.ts";
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
