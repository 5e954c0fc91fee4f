#!/usr/bin/env node
// The entry of the command. Plain JavaScript, so that an old Node can read it and say what is missing.
import module from "node:module";
import { fileURLToPath } from "node:url";

if (Number(process.versions.node.split(".")[0]) < 24) {
  const way = "npm install node@26 brings one for this folder alone";
  process.stderr.write(`relay: needs Node 24 or newer; this is ${process.version}; ${way}\n`);
  process.exitCode = 69;
} else {
  if (process.argv[2] === "start") startLean();
  // Else Node opens its debugger to everybody on this machine at this signal.
  process.on("SIGUSR1", () => undefined);
  // Compiled code is kept beside the package and not in a folder that other users may write to.
  module.enableCompileCache(fileURLToPath(new URL("../node_modules/.cache/relay", import.meta.url)));
  const { endWith, main } = await import("./program.ts");
  endWith(await main(process.argv.slice(2)));
}

/**
 * Starts this program once more, in this process, with settings that are read at a start only. The C library: 2 pools for all
 * threads, and free memory goes back. V8: halves of 16 MB for young objects, not 32, as the executable has them. Without
 * these a busy time takes and leaves more (bench/README.md, "Memory"). Who sets `MALLOC_ARENA_MAX`, keeps all of his own.
 */
function startLean() {
  const { env, execArgv, argv, execPath } = process;
  const able = process.platform === "linux" && process.execve !== undefined && process.channel === undefined;
  if (!able || env.MALLOC_ARENA_MAX !== undefined) return;
  const lean = { MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: "131072" };
  process.execve(execPath, [execPath, "--max-semi-space-size=16", ...execArgv, ...argv.slice(1)], { ...env, ...lean });
}
