import { join } from "node:path";
import { describeStorage } from "../conformance/storage.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { besideDisk, testClock } from "../support/clock.ts";
import { testFolder } from "../support/folder.ts";
import { pluginContext } from "../support/plugin-context.ts";

const clock = testClock();
const folder = testFolder();
const folders = new Map<Storage, string>();
let made = 0;

async function open(dir: string): Promise<Storage> {
  const storage = await sqlite({ dir }).setup(pluginContext(besideDisk(clock), folder));
  folders.set(storage, dir);
  return storage;
}

describeStorage("sqlite()", {
  clock,
  open: () => open(join(folder, String(made++))),
  async reopen(storage) {
    await storage.dispose();
    return open(folders.get(storage) as string);
  },
  // Each opens a thread again and again.
  runs: 12,
  backlog: 11_000,
});
