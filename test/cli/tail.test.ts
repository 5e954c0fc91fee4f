// relay tail and relay status against a running relay.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CommandStage, refused } from "../support/command-stage.ts";
import { startCommand, type Running } from "../support/command.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { freePort } from "../../tools/free-port.ts";

const port = await freePort();
const stage = new CommandStage(`server: { port: ${port}, shutdownMs: 2000 },
  guard: { allow: ["127.0.0.1:*"], ca: "./ca.pem" }, limits: { "*": false }, retry: { firstDelayMs: 10, factor: 1 }`);
const { folder, run } = stage;
let relay: Running;
let receiver: Receiver;
const url = `http://127.0.0.1:${port}`;
beforeAll(async () => {
  receiver = await startReceiver();
  stage.write("ca.pem", receiver.ca);
  relay = await stage.start();
});
afterAll(async () => {
  await relay[Symbol.asyncDispose]();
  await receiver.close();
});
const publish = async (id: string, key = "key_1") => {
  expect((await run(`publish a:b --key ${key} --id ${id}`)).code).toBe(0);
};

describe("relay tail", () => {
  it("prints events, attempts and changes of one key as they happen, for people and for programs", async () => {
    await using people = startCommand(["tail", "--key", "key_1", "--count", "4"], { cwd: folder });
    await using programs = startCommand(["tail", "--key", "key_1", "--count", "4", "--json"], { cwd: folder });
    await people.waitFor(/following key_1/);
    await programs.waitFor(/following key_1/);
    receiver.answer([500]);
    const create = `subscriptions create ${receiver.url("/tail")} --key key_1 --events *`;
    const { id } = await stage.json<{ id: string }>(create);
    await publish("other", "key_2");
    await publish("one");
    const read = await people.ended;
    expect(read.code).toBe(0);
    expect(read.stdout).not.toContain("other");
    const lines = read.stdout.trimEnd().split("\n");
    expect(lines[0]).toMatch(new RegExp(`^\\d\\d:\\d\\d:\\d\\d\\.\\d{3}  subscription  ${id}$`));
    expect(lines[1]).toMatch(/^[\d:.]{12} {2}event {9}one {2}a:b {2}1 deliveries$/);
    expect(lines[2]).toMatch(new RegExp(`attempt       one  ${id}  attempt 1  500 pending  [\\d.]+ ms  next \\d\\d:`));
    expect(lines.join("\n")).toMatch(/attempt 2 {2}200 delivered {2}[\d.]+ ms$/m);
    // Colours and cursor moves are for terminals.
    expect(read.stdout).not.toContain("\u001b");
    const told = (await programs.ended).stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(told.map(({ event }) => event)).toEqual(expect.arrayContaining(["subscription", "event", "attempt"]));
    expect(told.find(({ statusCode }) => statusCode === 200)).toMatchObject({
      event: "attempt",
      eventId: "one",
      number: 2,
      status: "delivered",
    });
  });

  it("comes back to a relay that was restarted", { timeout: 240_000 }, async () => {
    await using tail = startCommand(["tail", "--key", "key_1", "--json"], { cwd: folder });
    await tail.waitFor(/following key_1/);
    await publish("two");
    await tail.waitFor(/"eventId":"two".*"status":"delivered"/);
    relay.kill("SIGTERM");
    await relay.ended;
    await tail.waitFor(/went away/);
    relay = await stage.start();
    await tail.waitFor(/it is back/);
    await publish("three");
    await tail.waitFor(/"eventId":"three".*"status":"delivered"/);
    const ids = [...tail.stdout().matchAll(/"event":"event","id":"(\w+)"/g)].map(([, id]) => id);
    expect(ids).toEqual(["two", "three"]);
  });

  it("says at once what it cannot do", async () => {
    expect((await run("tail")).code).toBe(64);
    expect(await run("tail --key key_1 --token nonsense")).toMatchObject(refused(1, "401"));
    expect(await run("tail --key key_1 --url http://127.0.0.1:9")).toMatchObject({
      code: 69,
      stdout: "",
    });
  });
});

describe("relay status", () => {
  it("is readable, and complete as JSON", async () => {
    const people = await run("status");
    expect(people.code).toBe(0);
    expect(people.stdout).toMatch(/^ready\n/);
    expect(people.stdout).toMatch(new RegExp(`^relay +${url}, version \\d+\\.\\d+\\.\\d+, running for \\d+ s$`, "m"));
    expect(people.stdout).toMatch(/^storage +sqlite, fsync, .*bytes [\d.]+ (Ki)?B/m);
    expect(people.stdout).toMatch(/^backlog +0 waiting, 0 leased, 0 under way here$/m);
    expect(people.stdout).not.toContain("[object");
    const { stdout } = await run("status --json");
    expect(JSON.parse(stdout)).toMatchObject({
      node: { state: "running", pid: relay.pid, node: process.version },
      parts: { relay: { ready: true }, storage: { ready: true }, auth: { ready: true } },
      storage: { name: "sqlite", durability: "fsync" },
      backlog: { waiting: 0 },
    });
  });

  it("is told where no relay answers, with 69", async () => {
    expect(await run("status --url http://127.0.0.1:9")).toMatchObject(refused(69, "relay start"));
  });
});
