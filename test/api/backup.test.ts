import { request } from "undici";
import { describe, expect, it } from "vitest";
import { inspect } from "../../core/maintenance/backup.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";

async function* lines(text: string): AsyncGenerator<string> {
  yield* text.split("\n").slice(0, -1);
}

async function take(relay: TestRelay) {
  const headers = { authorization: `Bearer ${await relay.token({ mfa: true })}` };
  return request(`${relay.url}/relay/backup`, { headers });
}

describe("GET /relay/backup", () => {
  it("is for tokens that own every key and show a fresh second factor", async () => {
    await using relay = await startRelay();
    const get = async (claims: Parameters<typeof relay.token>[0]) =>
      relay.call("GET", "/relay/backup", { token: await relay.token(claims) });
    expect((await get({ keys: ["key_1"], mfa: true })).status).toBe(404);
    expect((await get({ mfa: false })).json).toMatchObject({ status: 401, code: "STEP_UP_REQUIRED" });
    expect((await relay.call("GET", "/relay/backup", { token: null })).status).toBe(401);
    const taken = await take(relay);
    expect(taken.statusCode).toBe(200);
    expect(taken.headers["content-type"]).toBe("application/x-ndjson");
    expect(await inspect(lines(await taken.body.text()))).toMatchObject({ head: { storage: "sqlite" } });
    const trail = await relay.call("GET", "/api-keys/key_1/audit");
    const actions = (trail.json.data as { action: string; result: string }[]).map((one) => [one.action, one.result]);
    expect(actions).toContainEqual(["backup.taken", "done"]);
    expect(actions).toContainEqual(["backup.taken", "refused"]);
  });

  it("is whole while events come in, and leaves no trace when its client goes away", { timeout: 240_000 }, async () => {
    await using relay = await startRelay();
    const event = (n: number) => ({ type: "a:b", keyId: "key_1", id: `e:${n}`, data: { pad: "x".repeat(2_000) } });
    for (let n = 0; n < 2_000; n += 500) {
      const batch = Array.from({ length: 500 }, (_, i) => event(n + i));
      expect((await relay.publish(batch)).status).toBe(202);
    }
    let coming = true;
    const publishing = (async () => {
      for (let n = 10_000; coming; n++) expect((await relay.publish(event(n))).status).toBe(202);
    })();
    const left = await take(relay);
    left.body.on("error", () => undefined).destroy();
    let taken = await take(relay);
    // One at a time: the other is let go as soon as its end is noticed.
    for (; taken.statusCode === 409; taken = await take(relay)) await taken.body.dump();
    expect(taken.statusCode).toBe(200);
    const text = await taken.body.text();
    coming = false;
    await publishing;
    expect((await inspect(lines(text))).lines).toBeGreaterThan(4_000);
  });
});
