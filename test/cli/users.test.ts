// Accounts from the command: in the storage while no relay runs, through the API while one does.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ends, refused } from "../support/command-stage.ts";
import { runHere } from "../support/command-here.ts";
import { startCommand } from "../support/command.ts";
import type { Ran } from "../support/command.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "relay-users-"));
});
afterAll(() => rmSync(folder, { recursive: true }));
const run = (args: readonly string[], input = "", env: Record<string, string> = {}): Promise<Ran> =>
  runHere(args, { cwd: folder, input, env });

/** Does with accounts what people do, the same way in both cases. */
async function story(name: string, env: Record<string, string>): Promise<void> {
  const added = await run(["users", "add", name, "--keys", "key_1"], "", env);
  expect(added).toMatchObject(ends(0, `made the account ${name}`));
  expect(added.stdout.trim()).toMatch(/^\S{24}$/);
  expect((await run(["users", "add", name], "", env)).code).toBe(1);
  expect((await run(["users", "add", `${name}2`, "--password", "-"], "short\n", env)).code).toBe(64);
  const listed = JSON.parse((await run(["users", "list", "--json"], "", env)).stdout) as { username: string }[];
  expect(listed.find((one) => one.username === name)).toMatchObject({ keys: ["key_1"], totp: false });
  expect((await run(["users", "totp", name], "", env)).stdout).toMatch(/^otpauth:\/\/totp\//);
  expect(await run(["users", "reset", name, "--password", "-"], "a long enough password\n", env)).toMatchObject({
    code: 0,
    stdout: "",
  });
  expect((await run(["users", "remove", name], "", env)).code).toBe(0);
  expect((await run(["users", "remove", name], "", env)).code).toBe(1);
}

it("makes no data folder for a look into one that is not there", async () => {
  expect(await run(["users", "list"])).toMatchObject(refused(69, `there is no data folder ${join(folder, "data")}`));
  expect(existsSync(join(folder, "data"))).toBe(false);
});

it("manages accounts before the relay was ever started", async () => {
  await story("alice", {});
});

it("manages accounts through a relay that runs", async () => {
  writeFileSync(
    join(folder, "relay.config.ts"),
    'export default { server: { port: 0 }, limits: { "*": false }, abuse: false };',
  );
  await using relay = startCommand(["start"], { cwd: folder });
  const [, url = ""] = await relay.waitFor(/listening at (http[^\s"]+)["\n]/);
  await story("bob", { RELAY_URL: url });
  // Without an address it finds the folder in use and asks where the config says; port 0 says nothing.
  expect((await run(["users", "list"])).code).toBe(69);
});

it("never takes a password from the command line", async () => {
  expect((await run(["users", "add", "carol", "--password", "hunter2 hunter2"])).code).toBe(64);
});

it("ends with 78 where an issuer keeps the accounts", async () => {
  const env = { RELAY_JWT_SECRET: "s".repeat(32) };
  expect((await run(["users", "list"], "", env)).code).toBe(78);
});
