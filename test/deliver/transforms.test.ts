// A subscription's transform makes the bodies of its deliveries; one that makes none is an attempt that failed.
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { transformFailed, type Transforming } from "../../core/deliver/send.ts";
import type { Transforms } from "../../core/runtime/transforms/transforms.ts";
import { replied, testPath, type PathOptions, type TestPath } from "../support/path.ts";

const ACTOR = { sub: "tester" };
const URL = "https://receiver.example/hook";

/** Transforms in this process: what `make` returns, throws or asks to wait for. */
function transforms(make: (event: { type: string; data: { n: number } }) => unknown): Transforms {
  const transform: Transforming = async (sub, { event }, turn, signal) => {
    signal.throwIfAborted();
    try {
      const made = await make(JSON.parse(event.body) as never);
      if (typeof made === "number") return made;
      return { event, body: Buffer.from(JSON.stringify(made)) };
    } catch (error) {
      return transformFailed(turn, `${sub.transform} ${String(error)}`, { startedAt: 1, durationMs: 2 });
    }
  };
  return { transform, names: () => ["slack"], reload: () => undefined, stop: () => Promise.resolve() };
}

async function withTransform(
  make: Parameters<typeof transforms>[0],
  options: PathOptions = {},
): Promise<{ test: TestPath; subscriptionId: string; secret: string }> {
  const test = await testPath({ ...options, transforms: transforms(make) });
  const fields = { url: URL, events: ["deposit:paid"], transform: "slack" };
  const made = await test.parts.subscriptions.create("key_1", fields, ACTOR);
  await test.start();
  return { test, subscriptionId: made.subscription.id, secret: made.secret };
}

const bodies = (test: TestPath): unknown[] =>
  test.sent.map(({ body }) => JSON.parse(Buffer.from(body).toString()) as unknown);
async function attempts(test: TestPath, eventId: string) {
  const found = await test.parts.history.event("key_1", eventId);
  return found?.deliveries[0]?.attempts ?? [];
}
/** Lets what is under way come to rest without moving time. */
const settle = (test: TestPath): Promise<void> => test.clock.advance(0);

describe("a delivery with a transform", () => {
  it("keeps to a pause that the receiver asks for while the transform runs, and to no shorter one", async () => {
    const ran = Promise.withResolvers<void>();
    const makes: (() => Promise<unknown>)[] = [
      () => ran.promise.then(() => ({ first: true })),
      () => ran.promise.then(() => 100),
    ];
    const made = await withTransform(() => makes.shift()?.() ?? { later: true });
    await using test = made.test;
    await test.publish();
    await test.publish();
    await settle(test);
    test.parts.gates.pause(made.subscriptionId, "retry_after", 60_000);
    ran.resolve();
    await settle(test);
    await test.clock.advance(59_000);
    expect(bodies(test)).toEqual([]);
    await test.clock.advance(2_000);
    expect(bodies(test)).toEqual([{ later: true }, { later: true }]);
  });

  it("carries what the transform made, signed as it is sent; the stored event stays as published", async () => {
    const made = await withTransform(({ type, data }) => ({ text: `${type} ${data.n}` }));
    await using test = made.test;
    const id = await test.publish();
    await test.answered(1);
    expect(bodies(test)).toEqual([{ text: "deposit:paid 1" }]);
    const [{ headers, body } = { headers: {} as Record<string, string>, body: new Uint8Array() }] = test.sent;
    const hex = createHmac("sha256", made.secret).update(body).digest("hex");
    expect(headers["X-Relay-Webhook-Signature"]).toBe(hex);
    expect(headers).toMatchObject({ "webhook-id": id, "X-Relay-Event": "deposit:paid" });
    expect(await attempts(test, id)).toMatchObject([{ number: 1, statusCode: 200, transform: "slack" }]);
    const stored = await test.parts.history.event("key_1", id);
    expect(stored?.event.body).toContain('"data":{"n":1}');
  });

  it("is retried when its transform fails, as after any other failure, and is failed after the last attempt", async () => {
    const made = await withTransform(() => {
      throw new Error("no amount");
    });
    await using test = made.test;
    const id = await test.publish();
    await settle(test);
    for (const wait of [5_500, 22_000, 88_000, 352_000]) {
      expect(await test.status(id)).toBe("pending");
      await test.clock.advance(wait);
    }
    expect(await test.status(id)).toBe("failed");
    expect(test.sent).toEqual([]);
    const all = await attempts(test, id);
    expect(all).toHaveLength(5);
    expect(all[0]).toMatchObject({
      number: 1,
      error: "transform",
      detail: "slack Error: no amount",
      transform: "slack",
      durationMs: 2,
    });
    expect(all[0]).not.toHaveProperty("statusCode");
  });

  it("is delivered by a later attempt when its transform works then, and a replay is transformed again", async () => {
    let calls = 0;
    const made = await withTransform(() => {
      if (++calls === 1) throw new Error("not yet");
      return { calls };
    });
    await using test = made.test;
    const id = await test.publish();
    await settle(test);
    await test.clock.advance(5_500);
    await test.answered(1);
    expect(await test.status(id)).toBe("delivered");
    await test.parts.replay.event("key_1", id, { force: true });
    await test.answered(2);
    expect(bodies(test)).toEqual([{ calls: 2 }, { calls: 3 }]);
  });

  it("waits without an attempt when its transform cannot be run now", async () => {
    let busy = true;
    const made = await withTransform(() => (busy ? 3_000 : { ok: true }));
    await using test = made.test;
    const id = await test.publish();
    await settle(test);
    expect(await attempts(test, id)).toEqual([]);
    expect(await test.storage.queue.depth()).toMatchObject({ leased: 0 });
    busy = false;
    await test.clock.advance(3_000);
    await test.answered(1);
    expect(await attempts(test, id)).toMatchObject([{ number: 1, statusCode: 200 }]);
  });

  it("is not sent when its subscription is disabled while its transform runs", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const made = await withTransform(async () => {
      begun.resolve();
      await promise;
      return { late: true };
    });
    await using test = made.test;
    const id = await test.publish();
    await begun.promise;
    await test.parts.subscriptions.update("key_1", made.subscriptionId, { status: "disabled" }, ACTOR);
    resolve();
    await settle(test);
    expect(test.sent).toEqual([]);
    expect(await test.status(id)).toBe("failed");
  });

  it("is not transformed any more once the transform is taken away from the subscription", async () => {
    const made = await withTransform(() => ({ made: true }));
    await using test = made.test;
    await test.parts.subscriptions.update("key_1", made.subscriptionId, { transform: null }, ACTOR);
    const id = await test.publish();
    await test.answered(1);
    expect(bodies(test)).toMatchObject([{ id, data: { n: 1 } }]);
    expect((await attempts(test, id))[0]).not.toHaveProperty("transform");
  });

  it("fails, and others do not, when the config has no such transform any more", async () => {
    await using test = await testPath();
    const { subscriptions } = test.parts;
    const fields = { url: URL, events: ["deposit:paid"] };
    await subscriptions.create("key_1", fields, ACTOR);
    const { subscription } = await subscriptions.create("key_1", fields, ACTOR);
    // As an earlier config has allowed it.
    const key = `subscription:key_1:${subscription.id}`;
    const known = SUBSCRIPTION.orThrow((await test.storage.getItem(key)) ?? "", key);
    const value = SUBSCRIPTION.write({ ...known, transform: "gone" });
    await test.storage.commit([{ op: "put", key, value }]);
    await test.start();
    const id = await test.publish();
    await test.answered(1);
    const found = await test.parts.history.event("key_1", id);
    const made = found?.deliveries.map(({ attempts: [attempt] }) => attempt?.detail ?? attempt?.statusCode);
    expect(made?.toSorted()).toEqual([200, "gone is not in the config any more"].toSorted());
  });
});

describe("the test event of a subscription with a transform", () => {
  const NEVER = new AbortController().signal;

  it("is transformed too", async () => {
    const made = await withTransform(({ type }) => ({ text: type }));
    await using test = made.test;
    const subscription = await test.subscription(made.subscriptionId);
    const { attempt } = await test.parts.testEvent.send(subscription, NEVER);
    expect(bodies(test)).toEqual([{ text: "relay:ping" }]);
    expect(attempt).toMatchObject({ statusCode: 200, transform: "slack" });
  });

  it("says why there is nothing to send", async () => {
    const made = await withTransform(() => {
      throw new TypeError("data.amount is missing");
    });
    await using test = made.test;
    const subscription = await test.subscription(made.subscriptionId);
    const { attempt } = await test.parts.testEvent.send(subscription, NEVER);
    expect(test.sent).toEqual([]);
    expect(attempt).toMatchObject({ error: "transform", detail: "slack TypeError: data.amount is missing" });
  });

  it("waits for its turn, and says so when that takes too long", async () => {
    const made = await withTransform(() => 60_000);
    await using test = made.test;
    test.otherwise = replied(200);
    const subscription = await test.subscription(made.subscriptionId);
    const sent = test.parts.testEvent.send(subscription, NEVER);
    for (let i = 0; i < 6; i++) await test.clock.advance(1_000);
    expect((await sent).attempt).toMatchObject({ error: "transform" });
    expect((await sent).attempt.detail).toContain("slack cannot be run now");
  });
});
