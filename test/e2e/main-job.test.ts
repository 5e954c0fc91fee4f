import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { memory, sqlite } from "../../config/index.ts";
import { verifyHex } from "../../core/signing/verify.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";

const EVENT = { type: "deposit:paid", keyId: "key_1", data: { amount: "10.00" } };

/** The event as the API shows it, once `done` says so; asked again after each request that the receiver gets. */
async function eventually(relay: TestRelay, id: string, status: string) {
  for (let tries = 0; ; tries++) {
    const shown = await relay.call("GET", `/api-keys/key_1/events/${id}`);
    if (shown.json.data.status === status) return shown.json.data;
    if (tries > 400) expect(shown.json.data.status).toBe(status);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe.each([
  { name: "memory", storage: () => memory() },
  { name: "sqlite", storage: () => sqlite() },
])("the main job on $name", ({ storage }) => {
  it("stores a published event, delivers it signed over TLS, and the official library verifies it", async () => {
    await using receiver = await startReceiver();
    await using relay = await startRelay({ storage: storage() });
    const { secret } = await relay.subscribe(receiver.url("/hook"), { events: ["deposit:paid"] });
    const data = '{"amount":1.0,"big":12345678901234567890,"a":1,"a":2,"t":"\\u00e9 é"}';
    const accepted = await relay.publish(
      `{"type":"deposit:paid","keyId":"key_1","createdAt":"2026-01-02T03:04:05+01:00","data": ${data} }`,
    );
    expect(accepted.status, accepted.text).toBe(202);
    expect(accepted.json.data).toMatchObject({
      type: "deposit:paid",
      keyId: "key_1",
      createdAt: "2026-01-02T02:04:05.000Z",
      deliveries: 1,
      duplicate: false,
    });
    await receiver.waitFor(1);
    const got = receiver.requests[0]!;
    const { id } = accepted.json.data;
    expect(got.body.toString()).toBe(
      `{"id":"${id}","type":"deposit:paid","keyId":"key_1","createdAt":"2026-01-02T02:04:05.000Z","data":${data}}`,
    );
    expect(got.path).toBe("/hook");
    expect(verifyHex(got.body, got.headers, secret)).toBe(true);
    new Webhook(secret).verify(got.body, got.headers as Record<string, string>);
    const shown = await eventually(relay, id, "delivered");
    expect(shown.deliveries).toMatchObject([
      { status: "delivered", cycle: 0, attempts: [{ number: 1, statusCode: 200 }] },
    ]);
  });

  it("retries, fails after five attempts, and delivers on replay", async () => {
    await using receiver = await startReceiver({ otherwise: 500 });
    await using relay = await startRelay({ storage: storage() });
    await relay.subscribe(receiver.url());
    const accepted = await relay.publish(EVENT);
    await receiver.waitFor(5);
    const { id } = accepted.json.data;
    const failed = await eventually(relay, id, "failed");
    expect(failed.deliveries[0]).toMatchObject({ status: "failed", reason: "exhausted" });
    expect(failed.deliveries[0].attempts).toHaveLength(5);
    receiver.answer([], 200);
    const replayed = await relay.call("POST", `/api-keys/key_1/events/${id}/replay`);
    expect([replayed.status, replayed.json.data]).toEqual([202, { deliveries: 1 }]);
    await receiver.waitFor(6);
    expect(receiver.requests[5]?.headers["x-relay-replay"]).toBe("1");
    await eventually(relay, id, "delivered");
    expect((await relay.call("POST", `/api-keys/key_1/events/${id}/replay`)).json.code).toBe("NOT_REPLAYABLE");
  });

  it("says of what storage can promise, and lists events newest first", async () => {
    await using relay = await startRelay({ storage: storage() });
    const batch = await relay.publish([EVENT, EVENT, EVENT]);
    expect(batch.headers["relay-durability"]).toMatch(/^(fsync|volatile)$/);
    expect(batch.json.data).toHaveLength(3);
    const listed = await relay.call("GET", "/api-keys/key_1/events?limit=2");
    expect(listed.json.data.map((event: { id: string }) => event.id)).toEqual([
      batch.json.data[2].id,
      batch.json.data[1].id,
    ]);
    expect(listed.json.data[0].status).toBe("unmatched");
    expect(listed.json.meta.nextCursor).toBeTypeOf("string");
  });
});

describe("a relay that comes back on its folder", () => {
  it("delivers what it had accepted, and remembers ids and attempts", async () => {
    await using receiver = await startReceiver({ otherwise: 500 });
    await using first = await startRelay({
      retry: { attempts: 5, firstDelayMs: 3_600_000, factor: 1, maxDelayMs: 3_600_000 },
    });
    await first.subscribe(receiver.url());
    const accepted = await first.publish({ ...EVENT, id: "order:1" });
    await receiver.waitFor(1);
    await first.stop();
    receiver.answer([], 200);
    await using second = await startRelay({}, first.dataDir);
    expect((await second.publish({ ...EVENT, id: "order:1" })).json.data.duplicate).toBe(true);
    const shown = await second.call("GET", `/api-keys/key_1/events/${accepted.json.data.id}`);
    expect(shown.json.data).toMatchObject({
      status: "pending",
      deliveries: [{ attempts: [{ number: 1, statusCode: 500 }] }],
    });
  });
});
