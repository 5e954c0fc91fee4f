#!/usr/bin/env node
// The entry of the command. Plain JavaScript, so that an old Node can read it and say what is missing.
import module from "node:module";
import { fileURLToPath } from "node:url";

if (Number(process.versions.node.split(".")[0]) < 24) {
  const way = "npm install node@26 brings one for this folder alone";
  process.stderr.write(`relay: needs Node 24 or newer; this is ${process.version}; ${way}\n`);
  process.exitCode = 69;
} else {
  // Compiled code is kept beside the package and not in a folder that other users may write to.
  module.enableCompileCache(fileURLToPath(new URL("../../node_modules/.cache/relay", import.meta.url)));
  const { main } = await import("./program.ts");
  process.exitCode = await main(process.argv.slice(2));
}
