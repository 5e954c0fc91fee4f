/**
 * The recorded process: `node child.ts <storage> <folder> <script>` plays a script on a storage and says on stdout, by one
 * system call a line, "do <writer> <deed>" before each commit and "ok …" or "no … <fault>" after it.
 */
import { writeSync } from "node:fs";
import { StorageError } from "../../core/model/errors.ts";
import type { Clock } from "../../core/ports/clock.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";
import type { StorageName } from "../support/storage-child.ts";
import { openStorage } from "./open.ts";
import { SCRIPTS, type Deed, type Script, type ScriptName } from "./scripts.ts";

const say = (line: string): void => void writeSync(1, `${line}\n`);

/** Work that the storage puts off comes soon, so that much of it is recorded. */
function hasty(): Clock {
  const clock = systemClock();
  return {
    ...clock,
    sleep: (until, signal) => clock.sleep(clock.now() + Math.ceil((until - clock.now()) / 100), signal),
  };
}

async function idle(storage: Storage): Promise<void> {
  for (;;) {
    const { behindKeys = 0 } = await storage.status();
    if (behindKeys === 0) return;
    await new Promise((turned) => setTimeout(turned, 2));
  }
}

async function play(storage: Storage, deeds: readonly Deed[], writer: number): Promise<void> {
  for (const [index, deed] of deeds.entries()) {
    if (deed === "idle") {
      await idle(storage);
      continue;
    }
    say(`do ${writer} ${index}`);
    try {
      await storage.commit(deed);
      say(`ok ${writer} ${index}`);
    } catch (error) {
      say(`no ${writer} ${index} ${error instanceof StorageError ? error.fault : String(error)}`);
    }
  }
}

const [name = "", folder = "", script = ""] = process.argv.slice(2);
const storage = await openStorage(name as StorageName, folder, pluginContext(hasty(), folder));
say("open");
const { writers }: Script = SCRIPTS[script as ScriptName];
await Promise.all(writers.map((deeds, writer) => play(storage, deeds, writer)));
say("played");
await storage.dispose();
say("closed");
