// A record that cannot be read is in no copy: a backup and a migration say so, and where its file is.
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { backupLines, canTap } from "../../core/maintenance/backup.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { testClock } from "../support/clock.ts";
import { startCommand } from "../support/command.ts";
import { runHere } from "../support/command-here.ts";
import { testFolder } from "../support/folder.ts";
import { pluginContext } from "../support/plugin-context.ts";

const CONFIG = 'import { defineRelay, filesystem } from "relaybox";\nexport default defineRelay';

describe("a storage with a record that cannot be read", () => {
  let folder: string;
  const open = (name: string) => filesystem().setup(pluginContext(testClock(), join(folder, name)));
  const run = (...args: string[]) => runHere(args, { cwd: folder });
  const lost = {
    code: 65,
    stderr: expect.stringMatching(/moved to quarantine: path \S+a\.json[^]*1 file or item could not be read/),
  };

  beforeEach(async () => {
    folder = testFolder();
    writeFileSync(join(folder, "relay.config.ts"), `${CONFIG}({ storage: filesystem() });`);
    writeFileSync(join(folder, "to.config.ts"), `${CONFIG}({ dataDir: "./other", storage: filesystem() });`);
    const storage = await open("data");
    const values = { "meta:schema": "2", "meta:a": "1", "meta:b": "2" };
    await storage.commit(Object.entries(values).map(([key, value]) => ({ op: "put", key, value })));
    await storage.dispose();
    const records = join(folder, "data", "files", "items");
    const file = readdirSync(records, { recursive: true, encoding: "utf8" }).find((name) => name.endsWith("a.json"));
    writeFileSync(join(records, file as string), "{}");
  });

  it("is not backed up as a whole one", async () => {
    expect(await run("backup", join(folder, "b.ndjson"))).toMatchObject(lost);
    expect(existsSync(join(folder, "b.ndjson"))).toBe(false);
  });

  it("is not backed up as a whole one by a relay at work, and the command says why", { timeout: 120_000 }, async () => {
    writeFileSync(
      join(folder, "relay.config.ts"),
      `${CONFIG}({ storage: filesystem(), server: { port: 0 }, log: { level: "error" } });`,
    );
    await using relay = startCommand(["start"], { cwd: folder });
    const url = (await relay.waitFor(/listening at (http[^\s"]+)["\n]/))[1] ?? "";
    const ran = await run("backup", join(folder, "b.ndjson"), "--url", url);
    expect(ran).toMatchObject({
      code: 65,
      stderr: expect.stringContaining("the relay ended it early: 1 file or item could not be read"),
    });
    expect(readdirSync(folder).filter((name) => name.startsWith("b."))).toEqual([]);
    await relay.waitFor(/a backup ended before it was whole/);
  });

  it("gives a backup without a foot while a relay serves", async () => {
    const storage = await open("data");
    if (!canTap(storage)) throw new Error("no tap");
    await expect(Array.fromAsync(backupLines(storage, { storage: "filesystem", at: 0 }))).rejects.toThrow(
      "1 file or item could not be read",
    );
    await storage.dispose();
  });

  it("is not migrated as a whole one, but without it once that is known", async () => {
    expect(await run("migrate", "--to", "to.config.ts")).toMatchObject(lost);
    const half = await open("other");
    expect(await half.getItem("meta:filling")).toContain("migration from filesystem");
    await half.dispose();
    expect(await run("migrate", "--to", "to.config.ts")).toMatchObject({ code: 0 });
  });
});
