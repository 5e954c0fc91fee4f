// Accounts from the command: in the storage while no relay runs, through the API while one does.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CommandStage, ends, refused } from "../support/command-stage.ts";

const stage = new CommandStage();
const { run } = stage;

/** Does with accounts what people do, the same way in both cases. */
async function story(name: string): Promise<void> {
  const added = await run(`users add ${name} --keys key_1`);
  expect(added).toMatchObject(ends(0, `made the account ${name}`));
  expect(added.stdout.trim()).toMatch(/^\S{24}$/);
  expect((await run(`users add ${name}`)).code).toBe(1);
  expect((await stage.piped("short\n", `users add ${name}2 --password -`)).code).toBe(64);
  const listed = await stage.json<{ username: string }[]>("users list");
  expect(listed.find((one) => one.username === name)).toMatchObject({ keys: ["key_1"], totp: false });
  expect((await run(`users totp ${name}`)).stdout).toMatch(/^otpauth:\/\/totp\//);
  const given = await stage.piped("a long enough password\n", `users reset ${name} --password -`);
  expect(given).toMatchObject({ code: 0, stdout: "" });
  expect((await run(`users remove ${name}`)).code).toBe(0);
  expect((await run(`users remove ${name}`)).code).toBe(1);
}

it("makes no data folder to read one that is not there", async () => {
  const data = join(stage.folder, "data");
  expect(await run("users list")).toMatchObject(refused(69, `there is no data folder ${data}`));
  expect(existsSync(data)).toBe(false);
});

it("manages accounts before the relay was ever started", () => story("alice"));

it("manages accounts through a relay that runs", async () => {
  stage.write("relay.config.ts", 'export default { server: { port: 0 }, limits: { "*": false }, abuse: false };');
  await using _ = await stage.start();
  await story("bob");
  // Without an address it finds the folder in use and asks where the config says; port 0 says nothing.
  delete stage.env["RELAY_URL"];
  expect((await run("users list")).code).toBe(69);
});

it("never takes a password from the command line", async () => {
  expect((await run("users add carol --password", "hunter2 hunter2")).code).toBe(64);
});

it("ends with 78 where an issuer keeps the accounts", async () => {
  stage.env["RELAY_JWT_SECRET"] = "s".repeat(32);
  expect((await run("users list")).code).toBe(78);
});
