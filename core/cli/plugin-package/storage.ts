/** The package of a storage: a driver of unstorage, with the promises that the relay adds to it. */
export const STORAGE = {
  about: "It keeps everything through a driver of unstorage, as files: replace the driver by your own.",
  use: `
import { defineRelay } from "relaybox";
import { FACTORY } from "NAME";

export default defineRelay({ storage: FACTORY({ dir: "./records" }) });
`,
  source: `
/**
 * Keeps everything through a driver of unstorage. The relay's \`unstorage()\` adds commits, order, queue and counters to any
 * driver, for one node; what your system does better, such as atomic commits, is worth a \`Storage\` of its own.
 */
import { resolve } from "node:path";
import { unstorage, type Plugin, type Storage } from "relaybox";
import fsDriver from "unstorage/drivers/fs-lite";
import { z } from "zod";

export interface Options {
  /** Folder of the records. Relative to the config file. */
  readonly dir: string;
}

const schema = z.strictObject({ dir: z.string().min(1) });

/** Every problem of the options, with its path. */
function problemsOf(options: unknown): { path: string; message: string }[] {
  const { error } = schema.safeParse(options);
  return (error?.issues ?? []).map(({ path, message }) => ({ path: path.join("."), message }));
}

export function FACTORY(options: Options): Plugin<"storage", Storage> {
  return {
    kind: "storage",
    name: "NAME",
    problems: problemsOf(options),
    setup: (ctx) => unstorage(fsDriver({ base: resolve(ctx.configDir, options.dir) })).setup(ctx),
  };
}
`,
  test: `
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { Storage } from "relaybox";
import { describeStorage, testClock, testContext } from "relaybox/conformance";
import { FACTORY } from "../src/index.ts";

const clock = testClock();
const folders = new Map<Storage, string>();
const root = mkdtempSync(join(tmpdir(), "NAME-"));
afterAll(() => rmSync(root, { recursive: true }));

async function openIn(dir: string): Promise<Storage> {
  const plugin = FACTORY({ dir });
  const storage = await plugin.setup(await testContext(plugin, { clock }));
  folders.set(storage, dir);
  return storage;
}

describeStorage("NAME", {
  clock,
  open: async () => openIn(mkdtempSync(join(root, "records-"))),
  async reopen(storage) {
    await storage.dispose();
    return openIn(folders.get(storage) as string);
  },
  runs: 3,
  backlog: 300,
  publisherSubscriptions: 0,
  skips: { slow: "a file for each record" },
});

describe("NAME", () => {
  it("names what is wrong with its options", () => {
    expect(FACTORY({ dir: "" }).problems?.map(({ path }) => path)).toEqual(["dir"]);
  });
});
`,
} as const;
