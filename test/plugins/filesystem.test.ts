import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { describeStorage } from "../conformance/storage.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";

const clock = testClock();
const folders = new Map<Storage, string>();

afterAll(async () => {
  for (const dir of new Set(folders.values())) await rm(dir, { recursive: true, force: true });
});

async function openIn(dir: string): Promise<Storage> {
  const storage = await filesystem({ dir }).setup(pluginContext(clock, dir));
  folders.set(storage, dir);
  return storage;
}

describeStorage("filesystem()", {
  clock,
  open: async () => openIn(await mkdtemp(join(tmpdir(), "relay-files-"))),
  async reopen(storage) {
    await storage.dispose();
    return openIn(folders.get(storage) as string);
  },
  runs: 30,
  backlog: 11_000,
  // A file a row.
  publishers: 4,
  publisherSubscriptions: 0,
});
