import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runHere } from "../support/command-here.ts";
import { runCommand, startCommand, type Ran, type Running } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";

interface Place {
  readonly folder: string;
  run(...args: readonly string[]): Promise<Ran>;
  /** The same, with an environment. */
  under(env: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<Ran>;
}
function place(config = ""): Place {
  const folder = testFolder();
  writeFileSync(
    join(folder, "relay.config.ts"),
    `import { defineRelay, filesystem, sqlite } from "relaybox";
void [filesystem, sqlite];
export default defineRelay({ server: { port: 0 }, log: { level: "error" }, ${config} });\n`,
  );
  return {
    folder,
    run: (...args) => runHere(args, { cwd: folder }),
    under: (env, ...args) => runHere(args, { cwd: folder, env }),
  };
}

// A relay with a subscription and a few events. It runs until the first test that wants it stopped.
let first: Place;
let relay: Running;
let url: string;
beforeAll(async () => {
  first = place();
  relay = startCommand(["start"], { cwd: first.folder });
  url = (await relay.waitFor(/listening at (http[^\s"]+)["\n]/))[1] ?? "";
  const subscribe = ["subscriptions", "create", "https://example.com/h", "--key", "k", "--events", "a:*"];
  expect((await first.run(...subscribe, "--url", url)).code).toBe(0);
  for (const id of ["one", "two", "three"]) {
    expect((await first.run("publish", "a:b", "--key", "k", "--id", id, "--url", url)).code).toBe(0);
  }
});
afterAll(() => relay[Symbol.asyncDispose]());

/** A copy of what that relay has left behind. */
async function lived(): Promise<Place> {
  relay.kill("SIGTERM");
  await relay.ended;
  const copy = place();
  cpSync(join(first.folder, "data"), join(copy.folder, "data"), { recursive: true });
  return copy;
}
const counts = async (at: Place) => {
  const { code, stdout } = await at.run("check", "--data", "--json");
  return { code, ...(JSON.parse(stdout) as { ok: boolean; records: Record<string, number>; faults: unknown[] }) };
};
const keysOf = (from: Place, to: Place): void =>
  cpSync(join(from.folder, "data", "keys"), join(to.folder, "data", "keys"), { recursive: true });

describe("relay backup and relay restore", () => {
  it("carry everything from a relay at work to a fresh one", { timeout: 240_000 }, async () => {
    const file = join(first.folder, "all.ndjson.gz");
    const taken = await runCommand(["backup", file, "--json", "--url", url], { cwd: first.folder });
    expect(taken.stderr).toContain("keys are not in it");
    expect(JSON.parse(taken.stdout)).toMatchObject({ file });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect((await first.run("backup", file, "--url", url)).code).toBe(64);
    const second = place("storage: filesystem(),");
    keysOf(first, second);
    expect(await second.run("restore", file)).toMatchObject({ code: 0 });
    const found = await counts(second);
    expect(found).toMatchObject({ code: 0, ok: true, faults: [] });
    expect(found.records).toMatchObject({ event: 3, eventid: 3, subscription: 1 });
    expect((await second.run("restore", file)).code).toBe(1);
    await using again = startCommand(["start"], { cwd: second.folder });
    const [, there = ""] = await again.waitFor(/listening at (http[^\s"]+)["\n]/);
    const listed = await second.run("events", "list", "--key", "k", "--json", "--url", there);
    expect((JSON.parse(listed.stdout) as unknown[]).length).toBe(3);
  });

  it("leave a relay at work to itself: nothing is migrated from it", async () => {
    const to = join(place("storage: filesystem(),").folder, "relay.config.ts");
    expect((await first.run("migrate", "--to", to)).code).toBe(75);
  });

  it(
    "are done offline too; a file that is not whole is refused before anything is written",
    { timeout: 240_000 },
    async () => {
      const first = await lived();
      const file = join(first.folder, "all.ndjson");
      expect((await first.run("backup", file)).code).toBe(0);
      const text = readFileSync(file, "utf8");
      writeFileSync(file, text.slice(0, text.lastIndexOf("\n", text.length - 2) + 1));
      const second = place();
      expect(await second.run("restore", file)).toMatchObject({
        code: 65,
        stderr: expect.stringContaining("end is missing"),
      });
      expect(existsSync(join(second.folder, "data"))).toBe(false);
      expect((await second.run("restore", "nowhere.ndjson")).code).toBe(64);
    },
  );
});

describe("relay migrate", () => {
  it(
    "copies from one storage to another and back; what was begun for another is refused",
    { timeout: 240_000 },
    async () => {
      const first = await lived();
      const second = place("storage: filesystem(),");
      const to = join(second.folder, "relay.config.ts");
      const before = await counts(first);
      const came = await first.run("migrate", "--to", to, "--json");
      expect(came.code).toBe(0);
      expect(JSON.parse(came.stdout)).toMatchObject({ from: "sqlite", to: "filesystem" });
      expect(await counts(second)).toEqual(before);
      const third = place();
      expect((await second.run("migrate", "--to", join(third.folder, "relay.config.ts"))).code).toBe(0);
      expect(await counts(third)).toEqual(before);
      expect((await first.run("migrate", "--to", to)).code).toBe(1);
    },
  );

  it(
    "takes secrets from files, and only the master key that what it copies is sealed by",
    { timeout: 240_000 },
    async () => {
      const first = await lived();
      const second = place("storage: filesystem(),");
      const to = join(second.folder, "relay.config.ts");
      const keys = join(first.folder, "data", "keys");
      const env = { RELAY_PUBLISH_TOKEN_FILE: join(keys, "publish-token") };
      const foreign = { RELAY_MASTER_KEY: Buffer.alloc(32, 9).toString("base64") };
      mkdirSync(join(second.folder, "data", "keys"), { recursive: true });
      writeFileSync(join(second.folder, "data", "keys", "master"), foreign.RELAY_MASTER_KEY);
      const refused = await first.under(env, "migrate", "--to", to);
      expect(refused).toMatchObject({
        code: 78,
        stderr: expect.stringContaining("another master key than the source"),
      });
      expect(refused.stderr).toContain(join(keys, "master"));
      expect((await second.run("check", "--data")).stdout).toContain("nothing is stored");
      rmSync(join(second.folder, "data", "keys", "master"));
      expect((await first.under(env, "migrate", "--to", to)).code).toBe(0);
      const shared = join(first.folder, "redis.config.ts");
      writeFileSync(
        shared,
        'import { redis } from "relaybox"; export default { storage: redis({ url: "redis://127.0.0.1:1" }) };',
      );
      const advice = await first.under(env, "migrate", "--to", shared);
      expect(advice).toMatchObject({ code: 78 });
      expect(advice.stderr).toContain(
        `RELAY_MASTER_KEY: must be the master key of the source: RELAY_MASTER_KEY_FILE=${join(keys, "master")}`,
      );
    },
  );
});
