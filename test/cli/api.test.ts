// Commands that ask the API, against a relay and a receiver that run as commands too.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCommand, startCommand } from "../support/command.ts";
import type { Ran, Running } from "../support/command.ts";

let folder: string;
let relay: Running;
let receiver: Running;
let receiverUrl: string;

const CONFIG = `import { defineRelay } from "relaybox";
export default defineRelay({
  server: { port: 0 },
  guard: { allow: ["127.0.0.1:*"], ca: "./ca/ca.pem" },
  limits: { "*": false },
  abuse: false,
});`;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "relay-api-"));
  writeFileSync(join(folder, "relay.config.ts"), CONFIG);
  receiver = startCommand(["listen", "--port", "0", "--dir", "ca", "--json"], { cwd: folder });
  receiverUrl = (await receiver.waitFor(/listening at (\S+)\n/))[1] ?? "";
  relay = startCommand(["start"], { cwd: folder });
  url = (await relay.waitFor(/listening at (\S+)\n/))[1] ?? "";
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await receiver?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});
let url: string;
const run = (...args: string[]): Promise<Ran> => runCommand(args, { cwd: folder, env: { RELAY_URL: url } });
const data = async <T>(...args: string[]): Promise<T> => {
  const { code, stdout, stderr } = await run(...args, "--json");
  expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout) as T;
};

describe("against a running relay", () => {
  let id: string;

  it("says where the first start put its keys, and never what they are", () => {
    expect(relay.stderr()).toContain(join(folder, "data", "keys", "signing"));
    expect(relay.stdout()).toBe("");
  });

  it("creates a subscription and shows its secret once", async () => {
    const created = await run("subscriptions", "create", `${receiverUrl}/a`, "--key", "key_1", "--events", "a:b,a:c");
    expect(created.code).toBe(0);
    expect(created.stdout).toMatch(/^secret +whsec_/m);
    expect(created.stderr).toContain("shown this once");
    const listed = await data<{ id: string; secret?: string }[]>("subscriptions", "list", "--key", "key_1");
    expect(listed).toHaveLength(1);
    expect(listed[0]).not.toHaveProperty("secret");
    id = listed[0]?.id ?? "";
    const table = (await run("subscriptions", "list", "--key", "key_1")).stdout.split("\n");
    expect(table[0]).toMatch(/^ID +STATUS +URL +EVENTS$/);
    expect(table[1]).toContain(`${receiverUrl}/a`);
  });

  it("publishes from an option, a file and stdin, byte for byte, and shows what became of it", async () => {
    writeFileSync(join(folder, "data.json"), '{"n": 1.0}');
    const given = await data<{ id: string; deliveries: number }>(
      "publish",
      "a:b",
      "--key",
      "key_1",
      "--data",
      '{"n":90071992547409931}',
    );
    expect(given.deliveries).toBe(1);
    const file = await data<{ id: string }>("publish", "a:b", "--key", "key_1", "--data", "@data.json", "--id", "007");
    expect(file.id).toBe("007");
    const env = { RELAY_URL: url };
    const piped = await runCommand(["publish", "a:b", "--key", "key_1", "--data", "-"], {
      cwd: folder,
      env,
      input: "-7\n",
    });
    expect(piped.stdout).toMatch(/^evt_\S+ {2}accepted, 1 delivery\n$/);
    await receiver.waitFor(new RegExp('90071992547409931[^]*"n\\\\": 1.0[^]*-7'));
    const again = await run("publish", "a:b", "--key", "key_1", "--data", "@data.json", "--id", "007");
    expect(again.stdout).toBe("007  known already, 1 delivery\n");
    const shown = await run("events", "show", "--json", "007", "--key", "key_1");
    expect(shown.stdout).toContain('"n": 1.0');
    const text = await run("events", "show", given.id, "--key", "key_1");
    expect(text.stdout).toContain("90071992547409931");
    expect(text.stdout).toContain(id);
    const listed = await data<{ id: string }[]>("events", "list", "--key", "key_1", "--type", "a:b");
    expect(listed.map((event) => event.id)).toContain("007");
    const page = await run("events", "list", "--key", "key_1", "--limit", "1");
    expect(page.stderr).toContain("there are more: --cursor ");
  });

  it("updates, disables, replays by force and deletes", async () => {
    expect(await data("subscriptions", "update", id, "--key", "key_1", "--events", "a:*")).toMatchObject({
      events: ["a:*"],
    });
    const replayed = await run("replay", "007", "--key", "key_1", "--force");
    expect(replayed).toMatchObject({ code: 0, stdout: "1 delivery goes out again\n" });
    await receiver.waitFor(/"replay":"1"/);
    const off = await run("subscriptions", "update", id, "--key", "key_1", "--status", "disabled");
    expect(off.stdout).toMatch(/^status +disabled$/m);
    expect(await run("subscriptions", "delete", id, "--key", "key_1")).toMatchObject({ code: 0, stdout: "" });
    expect(await run("subscriptions", "list", "--key", "key_1")).toMatchObject({ code: 0, stdout: "" });
  });

  it("prints an error of the API with title, detail and every field, and nothing on stdout", async () => {
    const wrong = await run("subscriptions", "create", "http://a.example/", "--key", "key_1", "--events", "a b");
    expect(wrong).toMatchObject({ code: 64, stdout: "" });
    expect(wrong.stderr).toContain("400 VALIDATION_FAILED");
    expect(wrong.stderr).toMatch(/^ {2}url: /m);
    expect(wrong.stderr).toMatch(/^ {2}events\[0\]: /m);
    expect((await run("subscriptions", "delete", "sub_nothing", "--key", "key_1")).code).toBe(1);
    expect((await run("replay", "007", "--key", "key_1", "--token", "wrong")).stderr).toContain("401 UNAUTHENTICATED");
    expect((await run("publish", "a:b", "--key", "key_1", "--token", "wrong")).code).toBe(1);
  });

  it("stops cleanly at SIGTERM", async () => {
    relay.kill("SIGTERM");
    expect(await relay.ended).toMatchObject({ code: 0, stdout: "" });
  });
});
