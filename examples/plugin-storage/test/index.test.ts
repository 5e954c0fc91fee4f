import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { Storage } from "relaybox";
import { describeStorage, testClock, testContext } from "relaybox/conformance";
import { myStorage } from "../src/index.ts";

const clock = testClock();
const folders = new Map<Storage, string>();
const root = mkdtempSync(join(tmpdir(), "my-storage-"));
afterAll(() => rmSync(root, { recursive: true }));

async function openIn(dir: string): Promise<Storage> {
  const plugin = myStorage({ dir });
  const storage = await plugin.setup(await testContext(plugin, { clock }));
  folders.set(storage, dir);
  return storage;
}

describeStorage("my-storage", {
  clock,
  open: async () => openIn(mkdtempSync(join(root, "records-"))),
  async reopen(storage) {
    await storage.dispose();
    return openIn(folders.get(storage) as string);
  },
  runs: 3,
  backlog: 300,
  subscriptions: 4,
  publishers: 4,
  publisherSubscriptions: 0,
  skips: { slow: "a file for each record" },
});

describe("my-storage", () => {
  it("names what is wrong with its options", () => {
    expect(myStorage({ dir: "" }).problems?.map(({ path }) => path)).toEqual(["dir"]);
  });
});
