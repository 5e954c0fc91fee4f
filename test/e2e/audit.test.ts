// Every management change, login and replay stands on the audit trail: who, from where, what, result.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { totpCode } from "../../plugins/auth/accounts/codes.ts";
import { kept } from "../support/kept.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay, type Answered } from "../support/relay.ts";

interface Line {
  readonly at: string;
  readonly by: string;
  readonly address?: string;
  readonly requestId?: string;
  readonly action: string;
  readonly target: string;
  readonly result: string;
  readonly detail?: string;
}

const PASSWORD = "correct horse battery";
const SECRETS: string[] = [PASSWORD, "wrong horse battery"];

const receiver = kept(await startReceiver());
const relay = kept(await startRelay({ retry: { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 } }));

const post = (path: string, body: unknown, token: string | null): Promise<Answered> =>
  relay.call("POST", path, { token, ...(body === undefined ? {} : { body }) });

async function trail(keyId: string, token?: string): Promise<readonly Line[]> {
  const lines: Line[] = [];
  for (let cursor = ""; ;) {
    const got = await relay.call(
      "GET",
      `/api-keys/${keyId}/audit?limit=7${cursor}`,
      token === undefined ? {} : { token },
    );
    expect(got.status).toBe(200);
    lines.push(...(got.json.data as Line[]));
    if (got.json.meta.nextCursor === undefined) return lines;
    cursor = `&cursor=${got.json.meta.nextCursor}`;
  }
}
/** Oldest first, in short. */
const short = (lines: readonly Line[]): string[] =>
  lines.toReversed().map(({ by, action, target, result }) => `${by} ${action} ${target} ${result}`);

describe("what is done with a key", () => {
  it("is told line by line, newest first, with the address and the request", async () => {
    const token = await relay.token({ sub: "owner", keys: ["key_1"], mfa: true });
    const call = (method: string, path: string, body?: unknown): Promise<Answered> =>
      relay.call(method, `/api-keys/key_1${path}`, { token, ...(body === undefined ? {} : { body }) });
    const made = await call("POST", "/webhooks", {
      url: receiver.url(),
      events: ["*"],
      headers: { "X-Key": "canary-1" },
    });
    const id = made.json.data.id as string;
    await call("PATCH", `/webhooks/${id}`, { description: "canary-2" });
    const rotated = await call("POST", `/webhooks/${id}/rotate-secret`);
    SECRETS.push("canary-1", "canary-2", made.json.data.secret as string, rotated.json.data.secret as string);
    await call("POST", `/webhooks/${id}/test`);
    receiver.answer([500]);
    const event = (await relay.publish({ type: "a:b", keyId: "key_1", data: 1 })).json.data.id as string;
    await expect.poll(async () => (await call("GET", `/events/${event}`)).json.data.status).toBe("failed");
    await call("POST", `/events/${event}/replay`);
    await expect.poll(async () => (await call("GET", `/events/${event}`)).json.data.status).toBe("delivered");
    await call("POST", `/webhooks/${id}/replay`, {});
    await call("POST", "/replay", { dryRun: true });
    await call("POST", "/replay", {});
    const deleted = await call("DELETE", `/webhooks/${id}`);
    const lines = await trail("key_1", token);
    expect(short(lines)).toEqual([
      `owner subscription.created ${id} done`,
      `owner subscription.updated ${id} done`,
      `owner secret.rotated ${id} done`,
      `owner subscription.tested ${id} done`,
      `owner event.replayed ${event} done`,
      `owner deliveries.replayed ${id} done`,
      "owner deliveries.replayed key_1 done",
      `owner subscription.deleted ${id} done`,
    ]);
    expect(lines[0]).toMatchObject({ address: "127.0.0.1", requestId: deleted.headers["x-request-id"] });
    for (const { at } of lines) expect(Math.abs(Date.now() - Date.parse(at))).toBeLessThan(60_000);
  });

  it("says when a second factor was missing, and nothing for a key of somebody else", async () => {
    const token = await relay.token({ sub: "weak", keys: ["key_2"] });
    const rotate = (keyId: string): Promise<Answered> =>
      post(`/api-keys/${keyId}/webhooks/sub_x/rotate-secret`, undefined, token);
    expect((await rotate("key_2")).json.code).toBe("STEP_UP_REQUIRED");
    expect((await rotate("key_1")).json.code).toBe("NOT_FOUND");
    const [line] = await trail("key_2", token);
    expect(line).toMatchObject({ by: "weak", action: "secret.rotated", target: "sub_x", result: "refused" });
    expect((await trail("key_1")).some(({ by }) => by === "weak")).toBe(false);
  });

  it("grows by one line a minute, however often the same is refused", async () => {
    const token = await relay.token({ sub: "stubborn", keys: ["key_3"] });
    for (let i = 0; i < 200; i++) {
      const target = `/api-keys/key_3/webhooks/${"x".repeat(1_000)}${i}/rotate-secret`;
      expect((await post(target, undefined, token)).status).toBe(401);
    }
    const lines = await trail("key_3", token);
    expect(lines).toHaveLength(1);
    expect(lines[0]?.target.length).toBeLessThanOrEqual(128);
  });

  it("has nothing that failed", async () => {
    const token = await relay.token({ sub: "owner", keys: ["key_4"], mfa: true });
    await relay.call("POST", "/api-keys/key_4/webhooks", { token, body: { url: "https://10.0.0.1/", events: ["*"] } });
    await relay.call("PATCH", "/api-keys/key_4/webhooks/sub_none", { token, body: { status: "active" } });
    await relay.call("DELETE", "/api-keys/key_4/webhooks/sub_none", { token });
    await relay.call("POST", "/api-keys/key_4/webhooks/sub_none/rotate-secret", { token });
    await relay.call("POST", "/api-keys/key_4/events/evt_none/replay", { token });
    expect(await trail("key_4", token)).toEqual([]);
  });
});

describe("what is done with accounts", () => {
  it("stands on the relay's own trail, or on those of the account's keys", async () => {
    const admin = await relay.token({ sub: "root", mfa: true });
    const weak = await relay.token({ sub: "weakroot" });
    const setup = (await readFile(join(relay.dataDir, "setup-code"), "utf8")).trim();
    SECRETS.push(setup);
    await post("/auth/setup", { code: "nope", username: "alice", password: PASSWORD }, null);
    await post("/auth/setup", { code: setup, username: "alice", password: PASSWORD }, null);
    expect((await post("/auth/users", { username: "bob", password: PASSWORD, keys: ["key_b"] }, weak)).status).toBe(
      401,
    );
    await post("/auth/users", { username: "bob", password: PASSWORD, keys: ["key_b"] }, admin);
    await post("/auth/login", { username: "bob", password: "wrong horse battery" }, null);
    await post("/auth/login", { username: "hunter2hunter2", password: "wrong horse battery" }, null);
    const login = await post("/auth/login", { username: "bob", password: PASSWORD }, null);
    let token = login.json.data.token as string;
    await post("/auth/totp", { password: "wrong horse battery" }, token);
    const begun = await post("/auth/totp", { password: PASSWORD }, token);
    const secret = new URL(begun.json.data.uri as string).searchParams.get("secret") as string;
    const code = (ahead: number): string => totpCode(secret, Math.floor(Date.now() / 30_000) + ahead);
    await relay.call("PUT", "/auth/totp", { token, body: { code: "000000" } });
    const on = await relay.call("PUT", "/auth/totp", { token, body: { code: code(0) } });
    token = on.json.data.token as string;
    SECRETS.push(secret, token, ...(on.json.data.recoveryCodes as string[]), String(login.headers["set-cookie"]));
    await post("/auth/step-up", { code: "000000" }, token);
    expect((await post("/auth/step-up", { code: code(1) }, token)).status).toBe(200);
    expect((await post("/auth/logout", undefined, token)).status).toBe(204);
    await post("/auth/users/bob/reset", { password: `${PASSWORD}!`, totp: false }, admin);
    await post("/auth/users/bob/totp", undefined, admin);
    await relay.call("DELETE", "/auth/users/bob", { token: admin });

    const bobs = await relay.token({ sub: "reader", keys: ["key_b"] });
    expect(short(await trail("key_b", bobs))).toEqual([
      "bob login bob refused",
      "bob login bob done",
      "bob second_factor.begun bob refused",
      "bob second_factor.begun bob done",
      "bob second_factor.on bob refused",
      "bob second_factor.on bob done",
      "bob step_up bob refused",
      "bob step_up bob done",
      "bob logout bob done",
    ]);
    const whole = await trail("key_b");
    const own = short(whole).filter((line) => !line.startsWith("bob "));
    expect(own).toEqual([
      "unknown account account.created first account refused",
      "alice account.created alice done",
      "weakroot account.created  refused",
      "root account.created bob done",
      "unknown account login unknown account refused",
      "root account.reset bob done",
      "root second_factor.begun bob done",
      "root account.removed bob done",
    ]);
    const order = whole.map(({ at }) => at);
    expect(order).toEqual(order.toSorted().toReversed());
  });

  it("is nobody's business who does not own every key", async () => {
    const token = await relay.token({ sub: "owner", keys: ["key_9"] });
    expect(await trail("key_9", token)).toEqual([]);
    expect((await trail("key_9")).length).toBeGreaterThan(5);
  });

  it("holds no secret, and no name that was none", async () => {
    const text = JSON.stringify([await trail("key_1"), await trail("key_b")]);
    for (const secret of [...SECRETS, "hunter2hunter2"]) expect(text).not.toContain(secret);
  });
});
