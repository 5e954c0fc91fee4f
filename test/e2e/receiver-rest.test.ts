// A replay waits for a receiver that has asked for rest, and is the probe of a breaker that rests by itself.
import { describe, expect, it } from "vitest";
import { kept } from "../support/kept.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";

const receiver = kept(await startReceiver());
const relay = kept(
  await startRelay({
    retry: { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 },
    health: { breakerAfter: 2, breakerPauseMs: 60_000, breakerMaxPauseMs: 60_000, disableAfterMs: 432_000_000 },
    limits: {},
  }),
);

const subscribe = async (keyId: string): Promise<string> =>
  (await relay.subscribe(receiver.url(`/${keyId}`), {}, keyId)).id;

async function failed(keyId: string): Promise<string> {
  const { json } = await relay.publish({ type: "deposit:paid", keyId, data: {} });
  const event = `/api-keys/${keyId}/events/${json.data.id}`;
  const token = await relay.token({ sub: `watcher-${json.data.id}` });
  await expect
    .poll(async () => (await relay.call("GET", event, { token })).json.data?.status, { interval: 500 })
    .toBe("failed");
  return event;
}

describe("a receiver that asked for rest", () => {
  it("is not sent a replay before, and the refusal costs nothing", async () => {
    receiver.answer([{ do: "reply", status: 503, headers: { "retry-after": "40" } }]);
    const id = await subscribe("key_rest");
    const event = await failed("key_rest");
    const token = await relay.token({ sub: "replayer" });
    const targets = [`${event}/replay`, `/api-keys/key_rest/webhooks/${id}/replay`, "/api-keys/key_rest/replay"];
    for (const target of targets) {
      for (let i = 0; i < 5; i++) {
        const got = await relay.call("POST", target, { token });
        expect([target, got.status, got.json.code]).toEqual([target, 429, "PROVIDER_BACKPRESSURE"]);
        expect(Number(got.headers["retry-after"])).toBeGreaterThan(30);
        expect(got.json.retryAfter).toBe(Number(got.headers["retry-after"]));
        expect(got.headers["x-ratelimit-remaining"]).toBe(got.headers["x-ratelimit-limit"]);
      }
    }
    const body = { dryRun: true };
    expect((await relay.call("POST", targets[1] as string, { token, body })).json.data).toMatchObject({ matched: 1 });
  });

  it("tells nobody else that it rests", async () => {
    const mine = await subscribe("key_other");
    const { json } = await relay.publish({ type: "deposit:paid", keyId: "key_other", data: {} });
    await receiver.waitFor(2);
    const resting = (await relay.call("GET", "/api-keys/key_rest/webhooks")).json.data[0].id as string;
    const token = await relay.token({ sub: "other", keys: ["key_other"] });
    const target = `/api-keys/key_other/events/${json.data.id}/replay`;
    const foreign = await relay.call("POST", target, { token, body: { subscriptionId: resting } });
    const unknown = await relay.call("POST", target, { token, body: { subscriptionId: `${mine}x` } });
    expect([foreign.status, unknown.status]).toEqual([404, 404]);
    expect(foreign.json.detail).toBe(unknown.json.detail);
  });

  it("gets it at once when it is enabled anew", async () => {
    const [hook] = (await relay.call("GET", "/api-keys/key_rest/webhooks")).json.data;
    const target = `/api-keys/key_rest/webhooks/${hook.id}`;
    const before = receiver.requests.length;
    for (const status of ["disabled", "active"])
      expect((await relay.call("PATCH", target, { body: { status } })).status).toBe(200);
    const got = await relay.call("POST", `${target}/replay`, { token: await relay.token({ sub: "third" }) });
    expect([got.status, got.json.data]).toEqual([202, { matched: 1, replayed: 1, more: false }]);
    await receiver.waitFor(before + 1);
  });
});

describe("a breaker that rests a receiver", () => {
  it("lets a replay by hand through at once", async () => {
    receiver.answer([500, 500]);
    await subscribe("key_broken");
    await failed("key_broken");
    const event = await failed("key_broken");
    const before = receiver.requests.length;
    const held = await relay.publish({ type: "deposit:paid", keyId: "key_broken", data: { held: true } });
    expect(held.status).toBe(202);
    expect((await relay.call("POST", `${event}/replay`)).status).toBe(202);
    // The probe goes through, and its success lets go of what was held back.
    await receiver.waitFor(before + 2, 60_000);
  });
});
