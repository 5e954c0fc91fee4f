// `relay backup`, `relay restore` and `relay migrate`: a copy is the whole storage of one relay, or none.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fsDriver from "unstorage/drivers/fs-lite";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { backupLines, canTap } from "../../core/maintenance/backup.ts";
import type { Change, Storage } from "../../core/ports/storage.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { unstorage } from "../../plugins/storage/unstorage.ts";
import { testClock } from "../support/clock.ts";
import { runHere } from "../support/command-here.ts";
import { CommandStage, ends, refused } from "../support/command-stage.ts";
import { runCommand, type Running } from "../support/command.ts";
import { pluginContext } from "../support/plugin-context.ts";

const place = (config = ""): CommandStage =>
  new CommandStage(`server: { port: 0 }, log: { level: "error" }, ${config}`, "filesystem");
const ON_FILES = "storage: filesystem(),";

// A relay with a subscription and a few events. It runs until the first test that wants it stopped.
const first = place();
let relay: Running;
beforeAll(async () => {
  relay = await first.start();
  const subscribed = await first.run("subscriptions create https://example.com/h --key k --events a:*");
  expect(subscribed.code).toBe(0);
  for (const id of ["one", "two", "three"]) expect((await first.run(`publish a:b --key k --id ${id}`)).code).toBe(0);
});
afterAll(() => relay[Symbol.asyncDispose]());

/** Makes a copy of the folder that this relay has left behind. */
async function lived(): Promise<CommandStage> {
  relay.kill("SIGTERM");
  await relay.ended;
  const copy = place();
  cpSync(join(first.folder, "data"), join(copy.folder, "data"), { recursive: true });
  return copy;
}
const counts = async (at: CommandStage) => {
  const { code, stdout } = await at.run("check --data --json");
  return { code, ...(JSON.parse(stdout) as { ok: boolean; records: Record<string, number>; faults: unknown[] }) };
};
const configOf = ({ folder }: CommandStage): string => join(folder, "relay.config.ts");

describe("relay backup and relay restore", () => {
  it("carry everything from a relay at work to a fresh one", { timeout: 240_000 }, async () => {
    const file = join(first.folder, "all.ndjson.gz");
    const taken = await runCommand(["backup", file, "--json"], { cwd: first.folder, env: first.env });
    expect(taken.stderr).toContain("keys are not in it");
    expect(JSON.parse(taken.stdout)).toMatchObject({ file });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect((await first.run("backup", file)).code).toBe(64);
    const second = place(ON_FILES);
    cpSync(join(first.folder, "data", "keys"), join(second.folder, "data", "keys"), { recursive: true });
    expect(await second.run("restore", file)).toMatchObject({ code: 0 });
    const found = await counts(second);
    expect(found).toMatchObject({ code: 0, ok: true, faults: [] });
    expect(found.records).toMatchObject({ event: 3, eventid: 3, subscription: 1 });
    expect((await second.run("restore", file)).code).toBe(1);
    await using _ = await second.start();
    expect((await second.json<unknown[]>("events list --key k")).length).toBe(3);
  });

  it("leave a relay at work to itself: nothing is migrated from it", async () => {
    expect((await first.run("migrate --to", configOf(place(ON_FILES)))).code).toBe(75);
  });

  it("refuse a file that is not whole before anything is written", { timeout: 240_000 }, async () => {
    const offline = await lived();
    const file = join(offline.folder, "all.ndjson");
    expect((await offline.run("backup", file)).code).toBe(0);
    const text = readFileSync(file, "utf8");
    writeFileSync(file, text.slice(0, text.lastIndexOf("\n", text.length - 2) + 1));
    const second = place();
    expect(await second.run("restore", file)).toMatchObject(ends(65, "end is missing"));
    expect(existsSync(join(second.folder, "data"))).toBe(false);
    expect((await second.run("restore nowhere.ndjson")).code).toBe(64);
  });
});

describe("relay migrate", { timeout: 240_000 }, () => {
  it("copies from one storage to another and back; what was begun for another is refused", async () => {
    const [from, second, third] = [await lived(), place(ON_FILES), place()];
    const before = await counts(from);
    const made = await from.json("migrate --to", configOf(second));
    expect(made).toMatchObject({ from: "sqlite", to: "filesystem" });
    expect(await counts(second)).toEqual(before);
    expect((await second.run("migrate --to", configOf(third))).code).toBe(0);
    expect(await counts(third)).toEqual(before);
    expect((await from.run("migrate --to", configOf(second))).code).toBe(1);
  });

  it("takes secrets from files, and only the master key that what it copies is sealed by", async () => {
    const [from, second] = [await lived(), place(ON_FILES)];
    const [keys, others] = [from, second].map(({ folder }) => join(folder, "data", "keys")) as [string, string];
    from.env["RELAY_PUBLISH_TOKEN_FILE"] = join(keys, "publish-token");
    mkdirSync(others, { recursive: true });
    writeFileSync(join(others, "master"), Buffer.alloc(32, 9).toString("base64"));
    const foreign = await from.run("migrate --to", configOf(second));
    expect(foreign).toMatchObject(ends(78, "another master key than the source"));
    expect(foreign.stderr).toContain(join(keys, "master"));
    expect((await second.run("check --data")).stdout).toContain("nothing is stored");
    rmSync(join(others, "master"));
    expect((await from.run("migrate --to", configOf(second))).code).toBe(0);
    const shared = 'storage: redis({ url: "redis://127.0.0.1:1" })';
    from.write("redis.config.ts", `import { redis } from "relaybox"; export default { ${shared} };`);
    const advice = `must be the master key of the source: RELAY_MASTER_KEY_FILE=${join(keys, "master")}`;
    expect(await from.run("migrate --to redis.config.ts")).toMatchObject(ends(78, `RELAY_MASTER_KEY: ${advice}`));
  });
});

const backupOf = ({ folder }: CommandStage): string => join(folder, "b.ndjson");
const copiesOf = (stage: CommandStage) => [`backup ${backupOf(stage)}`, "migrate --to to.config.ts"];
const stored = (values: Readonly<Record<string, string>>): Change[] =>
  Object.entries(values).map(([key, value]) => ({ op: "put", key, value }));

describe("a copy", () => {
  let stage: CommandStage;
  const store = async (...changes: Change[]): Promise<void> => {
    const storage = await sqlite().setup(pluginContext(testClock(), join(stage.folder, "data")));
    if (changes.length > 0) await storage.commit(changes);
    await storage.dispose();
  };
  beforeEach(() => {
    stage = new CommandStage();
    stage.write("to.config.ts", 'export default { dataDir: "./other" };');
  });

  it("of a storage that is filled by half is refused", async () => {
    await store(...stored({ "meta:filling": "restore abc", "meta:schema": "2" }));
    for (const words of copiesOf(stage)) expect(await stage.run(words), words).toMatchObject(ends(1, "half"));
    expect(existsSync(backupOf(stage))).toBe(false);
  });

  it("of nothing names the folder where nothing is, and makes none", async () => {
    const data = join(stage.folder, "data");
    for (const words of copiesOf(stage)) expect(await stage.run(words), words).toMatchObject(ends(69, data));
    expect(existsSync(data)).toBe(false);
    await store();
    for (const words of copiesOf(stage)) expect(await stage.run(words), words).toMatchObject(ends(69, data));
    expect(existsSync(backupOf(stage))).toBe(false);
  });
});

describe("a storage with a record that cannot be read", () => {
  let stage: CommandStage;
  const open = (name: string): Promise<Storage> =>
    Promise.resolve(filesystem().setup(pluginContext(testClock(), join(stage.folder, name))));
  const lost = {
    code: 65,
    stderr: expect.stringMatching(/moved to quarantine: path \S+a\.json[^]*1 file or item could not be read/),
  };

  beforeEach(async () => {
    stage = place(ON_FILES);
    stage.write(
      "to.config.ts",
      `import { filesystem } from "relaybox"; export default { dataDir: "./other", ${ON_FILES} };`,
    );
    const storage = await open("data");
    await storage.commit(stored({ "meta:schema": "2", "meta:a": "1", "meta:b": "2" }));
    await storage.dispose();
    const records = join(stage.folder, "data", "files", "items");
    const file = readdirSync(records, { recursive: true, encoding: "utf8" }).find((name) => name.endsWith("a.json"));
    writeFileSync(join(records, file as string), "{}");
  });

  it("is not backed up as a whole one", async () => {
    expect(await stage.run("backup", backupOf(stage))).toMatchObject(lost);
    expect(existsSync(backupOf(stage))).toBe(false);
  });

  it("is not backed up as a whole one by a relay at work, and the command says why", { timeout: 120_000 }, async () => {
    await using running = await stage.start();
    const why = "the relay ended it early: 1 file or item could not be read";
    expect(await stage.run("backup", backupOf(stage))).toMatchObject(ends(65, why));
    expect(readdirSync(stage.folder).filter((name) => name.startsWith("b."))).toEqual([]);
    await running.waitFor(/a backup ended before it was whole/);
  });

  it("gives a backup without a foot while a relay serves", async () => {
    const storage = await open("data");
    if (!canTap(storage)) throw new Error("no tap");
    const lines = Array.fromAsync(backupLines(storage, { storage: "filesystem", at: 0 }));
    await expect(lines).rejects.toThrow("1 file or item could not be read");
    await storage.dispose();
  });

  it("is not migrated as a whole one, but without it once that is known", async () => {
    expect(await stage.run("migrate --to to.config.ts")).toMatchObject(lost);
    const half = await open("other");
    expect(await half.getItem("meta:filling")).toContain("migration from filesystem");
    await half.dispose();
    expect(await stage.run("migrate --to to.config.ts")).toMatchObject({ code: 0 });
  });

  it("has its torn item named by relay check --data on unstorage(), with 65", async () => {
    // Torn as a full disk leaves it in the middle of a driver's write.
    const base = join(stage.folder, "items");
    const driver = JSON.stringify(import.meta.resolve("unstorage/drivers/fs-lite"));
    stage.write(
      "torn.config.ts",
      `import { unstorage } from "relaybox"; import fsDriver from ${driver};
export default { storage: unstorage(fsDriver({ base: ${JSON.stringify(base)} })) };`,
    );
    const storage = await unstorage(fsDriver({ base })).setup(pluginContext(testClock(), base));
    await storage.commit(stored({ "health:sub_1": "1" }));
    await storage.dispose();
    const item = readdirSync(base, { recursive: true, encoding: "utf8" }).find((name) => name.endsWith(".txt"));
    writeFileSync(join(base, item as string), "");
    const ran = await runHere(["check", "--data", "--config", "torn.config.ts"], { cwd: stage.folder });
    expect(ran).toMatchObject(ends(65, "1 item cannot be read"));
    expect(ran.stderr).toContain("key health:sub_1");
  });
});

describe("relay backup and relay migrate", () => {
  it("refuse a copy into what is there", async () => {
    const stage = new CommandStage();
    stage.write("relay.config.ts", "export default {};");
    mkdirSync(join(stage.folder, "data"));
    expect(await stage.run("migrate --to relay.config.ts")).toMatchObject(refused(64, "the source itself"));
    expect(readdirSync(join(stage.folder, "data"))).toEqual([]);
  });
});
