// A backup and a migration copy a relay's whole storage: not one that is not there, and not a half-filled one.
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Change } from "../../core/ports/storage.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { testClock } from "../support/clock.ts";
import { runHere } from "../support/command-here.ts";
import { testFolder } from "../support/folder.ts";
import { pluginContext } from "../support/plugin-context.ts";

function place() {
  const folder = testFolder();
  writeFileSync(join(folder, "to.config.ts"), 'export default { dataDir: "./other" };');
  return {
    folder,
    data: join(folder, "data"),
    file: join(folder, "b.ndjson"),
    run: (...args: string[]) => runHere(args, { cwd: folder }),
    async store(...changes: Change[]): Promise<void> {
      const storage = await sqlite().setup(pluginContext(testClock(), join(folder, "data")));
      if (changes.length > 0) await storage.commit(changes);
      await storage.dispose();
    },
  };
}
const put = (key: string, value: string): Change => ({ op: "put", key, value });
const copies = (file: string) => [
  ["backup", file],
  ["migrate", "--to", "to.config.ts"],
];

describe("a copy", () => {
  it("of a storage that is filled by half is refused", async () => {
    const { file, run, store } = place();
    await store(put("meta:filling", "restore abc"), put("meta:schema", "2"));
    for (const args of copies(file))
      expect(await run(...args)).toMatchObject({ code: 1, stderr: expect.stringContaining("half") });
    expect(existsSync(file)).toBe(false);
  });

  it("of nothing names the folder where nothing is, and makes none", async () => {
    const { data, file, run, store } = place();
    const nothing = { code: 69, stderr: expect.stringContaining(data) };
    for (const args of copies(file)) expect(await run(...args)).toMatchObject(nothing);
    expect(existsSync(data)).toBe(false);
    await store();
    for (const args of copies(file)) expect(await run(...args)).toMatchObject(nothing);
    expect(existsSync(file)).toBe(false);
  });
});
