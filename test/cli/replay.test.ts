// Many events replayed at once, rotation, test events and the audit trail, as an operator types them.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, TEST_KEYS, type TestRelay } from "../support/relay.ts";
import { runHere } from "../support/command-here.ts";
import type { Ran } from "../support/command.ts";

let relay: TestRelay;
let receiver: Receiver;
let token: string;
beforeAll(async () => {
  receiver = await startReceiver({ otherwise: 500 });
  relay = await startRelay({ retry: { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 }, health: false });
  token = await relay.token({ mfa: true });
});
afterAll(async () => {
  await relay[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});
const run = (...args: string[]): Promise<Ran> =>
  runHere(args, {
    cwd: relay.dataDir,
    env: { RELAY_URL: relay.url, RELAY_TOKEN: token, RELAY_PUBLISH_TOKEN: TEST_KEYS.publishToken },
  });

describe("relay replay", () => {
  let id: string;
  it("counts what failed, then sends it again, no more than asked for", async () => {
    const made = await run("subscriptions", "create", receiver.url(), "--key", "key_1", "--events", "*", "--json");
    id = (JSON.parse(made.stdout) as { id: string }).id;
    const events = Array.from({ length: 7 }, (_, n) => ({ type: "a:b", keyId: "key_1", data: n }));
    expect((await relay.publish(events)).status).toBe(202);
    await expect
      .poll(async () => (await run("replay", "--key", "key_1", "--dry-run")).stdout)
      .toBe("7 deliveries would go out again\n");
    const some = await run("replay", "--key", "key_1", "--subscription", id, "--limit", "3", "--json");
    expect(some.code).toBe(0);
    expect(JSON.parse(some.stdout)).toMatchObject({ matched: 3, replayed: 3, more: true });
    await receiver.waitFor(10);
  });

  it("only counts when it is asked twice, or in so many words, to only count", async () => {
    await expect
      .poll(async () => (await run("replay", "--key", "key_1", "--dry-run")).stdout)
      .toBe("7 deliveries would go out again\n");
    const counted = { code: 0, stdout: "7 deliveries would go out again\n", stderr: "" };
    expect(await run("replay", "--key", "key_1", "--dry-run", "--json", "--json=false", "--dry-run")).toEqual(counted);
    expect(await run("replay", "--key", "key_1", "--dry-run=true")).toEqual(counted);
    expect(receiver.requests.length).toBe(10);
  });

  it("keeps its pace, and needs no second run", async () => {
    await expect
      .poll(async () => (await run("replay", "--key", "key_1", "--dry-run")).stdout)
      .toBe("7 deliveries would go out again\n");
    receiver.answer([], 200);
    const all = await run("replay", "--key", "key_1", "--per-second", "500");
    expect(all).toMatchObject({ code: 0, stdout: "7 deliveries go out again\n" });
    await receiver.waitFor(17);
    const none = await run("replay", "--key", "key_1", "--json");
    expect([none.code, JSON.parse(none.stdout)]).toEqual([0, { matched: 0, replayed: 0, more: false }]);
  });

  it.each([
    [["replay", "--force", "--key", "k"], "--force is for one event"],
    [["replay", "evt_1", "--key", "k", "--since", "2026-01-01T00:00:00Z"], "--since is for many"],
    [["replay", "evt_1", "--key", "k", "--dry-run"], "--dry-run is for many"],
    [["replay"], "--key is missing"],
    [["replay", "--key", "k", "--limit", "10001"], "--limit must be"],
  ])("refuses %j", async (args, told) => {
    const { code, stdout, stderr } = await run(...args);
    expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
    expect(stderr).toContain(told);
  });

  it("says 64 for a time that is none, with the field", async () => {
    const wrong = await run("replay", "--key", "key_1", "--since", "yesterday");
    expect(wrong.code).toBe(64);
    expect(wrong.stderr).toMatch(/^ {2}since: /m);
  });

  it("a rotation shows the new secret, a test event what came of it, and the trail both", async () => {
    const rotated = await run("subscriptions", "rotate", id, "--key", "key_1", "--overlap", "60", "--json");
    expect(JSON.parse(rotated.stdout)).toMatchObject({ id, secret: expect.stringMatching(/^whsec_/) });
    const tested = await run("subscriptions", "test", id, "--key", "key_1", "--json");
    expect([tested.code, JSON.parse(tested.stdout)]).toMatchObject([0, { statusCode: 200, number: 1 }]);
    receiver.answer([503]);
    expect((await run("subscriptions", "test", id, "--key", "key_1")).code).toBe(1);
    const trail = await run("audit", "--key", "key_1", "--json", "--limit", "3");
    const lines = JSON.parse(trail.stdout) as { action: string; by: string }[];
    expect(lines.map(({ action }) => action)).toEqual(["subscription.tested", "subscription.tested", "secret.rotated"]);
    expect(trail.stderr).toContain("there are more: --cursor ");
    const text = (await run("audit", "--key", "key_1")).stdout;
    expect(text.split("\n")[0]).toMatch(/^AT +BY +FROM +WHAT +OF +RESULT +DETAIL$/);
    expect(text + trail.stdout).not.toContain("whsec_");
    const secrets = await run("audit", "--key", "key_1", "--action", "secret", "--target", id, "--json");
    expect(JSON.parse(secrets.stdout)).toMatchObject([{ action: "secret.rotated", target: id }]);
    const none = await run("audit", "--key", "key_1", "--by", "nobody");
    expect(none.stderr).toContain("none of the entries looked at is such a one");
  });

  it("takes each of them once, also where they fail again while it goes on", { timeout: 60_000 }, async () => {
    receiver.answer([], 500);
    await run("subscriptions", "create", receiver.url(), "--key", "key_2", "--events", "*");
    const events = Array.from({ length: 12 }, (_, n) => ({ type: "a:b", keyId: "key_2", data: n }));
    expect((await relay.publish(events)).status).toBe(202);
    await expect
      .poll(async () => (await run("replay", "--key", "key_2", "--dry-run")).stdout)
      .toBe("12 deliveries would go out again\n");
    const { code, stdout } = await run("replay", "--key", "key_2", "--per-second", "1", "--limit", "12");
    expect(code).toBe(0);
    const read = async (id: string) =>
      JSON.parse((await run("events", "show", id, "--key", "key_2", "--json")).stdout) as {
        readonly deliveries: readonly { readonly cycle: number }[];
      };
    const listed = JSON.parse((await run("events", "list", "--key", "key_2", "--json")).stdout) as { id: string }[];
    const cycles = await Promise.all(listed.map(async ({ id }) => (await read(id)).deliveries[0]?.cycle));
    expect(cycles).toEqual(Array.from({ length: 12 }, () => 1));
    expect(stdout).toBe("12 deliveries go out again, over 12 s\n");
  });
});
