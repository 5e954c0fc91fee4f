import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import type { Storage, StorageReads } from "../../core/ports/storage.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { describeStorage, type StorageHarness } from "../conformance/storage.ts";
import { besideDisk, testClock } from "../support/clock.ts";
import { testFolder } from "../support/folder.ts";
import { hostStorage, type HostedStorage } from "../support/hosted-storage.ts";
import { pluginContext } from "../support/plugin-context.ts";

const clock = testClock();
const folder = testFolder();
const hosts = new Map<Storage, { readonly hosted: HostedStorage; readonly again: () => Promise<Storage> }>();

/** A node on a storage of its own; its end is the end of the storage too. */
async function open(setup: () => Promise<Storage>, reads?: () => Promise<StorageReads | undefined>): Promise<Storage> {
  const hosted = hostStorage(await setup(), clock, reads);
  const node = await hosted.connect();
  const { dispose } = node;
  let closing: Promise<void> | undefined;
  node.dispose = () => (closing ??= dispose().then(() => hosted.close()));
  hosts.set(node, { hosted, again: () => open(setup, reads) });
  return node;
}

const hostedOf = (node: Storage) => hosts.get(node) as NonNullable<ReturnType<typeof hosts.get>>;

/** What the host says arrives some turns later. */
async function heard(): Promise<void> {
  for (let turns = 0; turns < 8; turns++) await new Promise((resolve) => setImmediate(resolve));
}

const harness: Pick<StorageHarness, "clock" | "second" | "skips"> = {
  clock: {
    now: clock.now,
    async advance(ms) {
      await heard();
      await clock.advance(ms);
      await heard();
    },
    async step(ms) {
      await heard();
      await clock.step(ms);
    },
  },
  second: (node) => hostedOf(node).hosted.connect(),
  skips: { lapse: "a lease lasts until the thread of its holder ends: test/runtime/storage-threads.test.ts" },
};

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A storage that answers some turns later, as one does that writes files: other calls come in between. */
function late(inner: Storage): Storage {
  const later =
    <T extends readonly unknown[], R>(call: (...args: T) => Promise<R>) =>
    async (...args: T): Promise<R> => {
      await turn();
      try {
        return await call(...args);
      } finally {
        await turn();
      }
    };
  const { commit, getMany, range } = inner;
  return { ...inner, commit: later(commit), getMany: later(getMany), range: later(range) };
}

// What the host and its nodes do is the same over each storage: one answers later, and one is read past the host.
describeStorage("memory(), which answers later, in another thread", {
  ...harness,
  open: () => open(async () => late(await memory().setup(pluginContext(clock, "/nonexistent")))),
  skips: { ...harness.skips, reopen: "it is gone with the process, and says so (volatile)" },
  runs: 20,
});

describeStorage("sqlite() in another thread", {
  ...harness,
  async open() {
    const dir = mkdtempSync(join(folder, "db-"));
    const plugin = sqlite({ dir });
    const ctx = pluginContext(besideDisk(clock), folder);
    return open(
      async () => plugin.setup(ctx),
      async () => plugin.reads?.(ctx),
    );
  },
  async reopen(node) {
    const { again } = hostedOf(node);
    await node.dispose();
    return again();
  },
  skips: { ...harness.skips, slow: "the queue asks the host, whatever the storage: memory() above" },
  runs: 10,
  publisherSubscriptions: 0,
});
