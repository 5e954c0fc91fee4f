/** Disabling, deleting and 410 end what waits for a later attempt when they happen: in lists, in order and for replays. */
import { describe, expect, it } from "vitest";
import type { DeliveryStatus } from "../../core/model/delivery.ts";
import type { SubscriptionFields } from "../../core/subscriptions/subscriptions.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { holdSettles, replied, testPath, type PathOptions, type TestPath } from "../support/path.ts";
import { faults } from "../support/wide.ts";

const ACTOR = { sub: "tester" };
const HOUR = 3_600_000;

async function opened(
  fields: Partial<SubscriptionFields> = {},
  options: PathOptions = {},
): Promise<{ readonly test: TestPath; readonly sub: string }> {
  const test = await testPath(options);
  const url = "https://receiver.example/hook";
  const given = { url, events: ["deposit:paid"], retry: { delaysMs: [HOUR] }, ...fields };
  const { subscription } = await test.parts.subscriptions.create("key_1", given, ACTOR);
  return { test, sub: subscription.id };
}

const settle = (test: TestPath): Promise<void> => test.clock.advance(0);
const set = (test: TestPath, sub: string, status: "active" | "disabled") =>
  test.parts.subscriptions.update("key_1", sub, { status }, ACTOR);

/** Publishes three, whose first attempts fail: of those in order, one is tried. */
async function failThree(test: TestPath, tried: number): Promise<string[]> {
  test.otherwise = replied(500);
  await test.start();
  const made = [await test.publish(), await test.publish(), await test.publish()];
  await test.whenSent(tried);
  await settle(test);
  return made;
}

async function listed(test: TestPath, sub: string, status: DeliveryStatus): Promise<readonly string[]> {
  const subscription = (await test.parts.subscriptionCache.get("key_1", sub))!;
  const { items } = await test.parts.history.deliveries(subscription, status, { limit: 100 });
  return items.map(({ delivery }) => delivery.eventId).toReversed();
}

async function replayAll(test: TestPath, sub: string, dryRun = false) {
  const subscription = (await test.parts.subscriptionCache.get("key_1", sub))!;
  return await test.parts.replay.failed({ subscription, limit: 100, perSecond: 1_000, dryRun });
}

const left = async ({ storage }: TestPath): Promise<readonly string[]> => {
  const rows = ["due:", "waiting:", "held:", "ending:"].map((prefix) => storage.range(prefix, { limit: 1_000 }));
  return (await Promise.all(rows)).flat().map(({ key }) => key);
};

const KINDS = [
  ["plain", {}, 3],
  ["ordered", { ordered: true }, 1],
  ["ordered and holding", { ordered: true, onFailed: "hold" }, 1],
  ["ordered by a value", { ordered: true, orderBy: "n" }, 1],
] as const;

describe.each(KINDS)("what a %s subscription waits with", (_, fields, tried) => {
  it("ends when it is disabled: what is published once it is enabled comes at once", async () => {
    const { test, sub } = await opened(fields);
    await using _ = test;
    await failThree(test, tried);
    await set(test, sub, "disabled");
    await set(test, sub, "active");
    test.otherwise = replied(200);
    const id = await test.publish();
    await test.whenSent(tried + 1);
    await settle(test);
    expect(test.sent.at(-1)?.headers["webhook-id"]).toBe(id);
    expect(await test.status(id)).toBe("delivered");
    expect(await left(test)).toEqual([]);
    expect(await faults(test.storage)).toEqual([]);
  });

  it("is matched by a replay once it is enabled, as the list shows it", async () => {
    const { test, sub } = await opened(fields);
    await using _ = test;
    const made = await failThree(test, tried);
    await set(test, sub, "disabled");
    expect(await listed(test, sub, "failed")).toEqual(made);
    await set(test, sub, "active");
    expect(await listed(test, sub, "failed")).toEqual(made);
    expect(await replayAll(test, sub, true)).toMatchObject({ matched: 3 });
    test.otherwise = replied(200);
    expect(await replayAll(test, sub)).toMatchObject({ matched: 3, replayed: 3, more: false });
    await test.clock.advance(10);
    await test.whenSent(tried + 3);
    await test.clock.advance(10);
    for (const id of made) expect(await test.status(id)).toBe("delivered");
    expect(await left(test)).toEqual([]);
    expect(await faults(test.storage)).toEqual([]);
  });

  it("ends when its endpoint is gone", async () => {
    const { test, sub } = await opened(fields);
    await using _ = test;
    const made = await failThree(test, tried);
    test.answers = [replied(410)];
    if (tried === 1) await test.clock.advance(2 * HOUR);
    else made.push(await test.publish());
    await test.whenSent(tried + 1);
    await settle(test);
    expect(await listed(test, sub, "failed")).toEqual(made);
    expect(await left(test)).toEqual([]);
    await set(test, sub, "active");
    expect(await replayAll(test, sub, true)).toMatchObject({ matched: made.length });
    expect(await faults(test.storage)).toEqual([]);
  });

  it("ends as cancelled when it is deleted", async () => {
    const { test, sub } = await opened(fields);
    await using _ = test;
    const made = await failThree(test, tried);
    await test.parts.subscriptions.remove("key_1", sub, ACTOR);
    for (const id of made) expect(await test.status(id)).toBe("cancelled");
    await settle(test);
    expect(await left(test)).toEqual([]);
    for (const id of made) expect(await test.status(id)).toBe("cancelled");
    expect(test.sent).toHaveLength(tried);
  });

  it("ends although nobody comes to it before a crash", async () => {
    const { test, sub } = await opened(fields);
    await using _ = test;
    const made = await failThree(test, tried);
    await test.parts.sweeper.stop();
    await test.parts.dispatcher.stop(0);
    await set(test, sub, "disabled");
    expect(await left(test)).toContain(`ending:key_1:${sub}`);
    const { queue } = test.storage;
    await using next = await testPath({ storage: test.storage, clock: test.clock });
    next.otherwise = replied(200);
    expect(await listed(next, sub, "failed")).toEqual(made);
    await set(next, sub, "active");
    expect(await replayAll(next, sub, true)).toMatchObject({ matched: 3 });
    await set(next, sub, "disabled");
    await next.start();
    await settle(next);
    expect(await left(next)).toEqual([]);
    expect(await queue.pending([sub])).toBe(0);
    expect(await faults(next.storage)).toEqual([]);
  });
});

describe("a delivery of a subscription that is disabled", () => {
  it("ends when a node holds it for its next attempt", async () => {
    const { test, sub } = await opened({ ordered: true, retry: { delaysMs: [20_000] } });
    await using _ = test;
    const made = await failThree(test, 1);
    expect(await test.storage.queue.depth()).toMatchObject({ leased: 1 });
    await set(test, sub, "disabled");
    await set(test, sub, "active");
    await settle(test);
    expect(await replayAll(test, sub, true)).toMatchObject({ matched: 3 });
    test.otherwise = replied(200);
    const id = await test.publish();
    await test.whenSent(2);
    expect(test.sent.at(-1)?.headers["webhook-id"]).toBe(id);
    expect(made).not.toContain(id);
  });

  it("keeps the outcome of an attempt that is under way, and gets no other one", async () => {
    const { test, sub } = await opened();
    await using _ = test;
    const { promise, resolve } = Promise.withResolvers<void>();
    const answer = (status: number) => () => promise.then(() => replied(status));
    test.answers = [answer(200), answer(500)];
    await test.start();
    const [well, ill] = [await test.publish(), await test.publish()];
    await test.whenSent(2);
    await set(test, sub, "disabled");
    await set(test, sub, "active");
    resolve();
    await settle(test);
    // It waits for nothing: no claim and no count of what is pending meets it until the next sweep.
    expect(await test.storage.range("due:")).toEqual([]);
    expect(await listed(test, sub, "delivered")).toEqual([well]);
    expect(await listed(test, sub, "failed")).toEqual([ill]);
    expect(await replayAll(test, sub, true)).toMatchObject({ matched: 1 });
    await test.clock.advance(2 * HOUR);
    expect(test.sent).toHaveLength(2);
    expect(await left(test)).toEqual([]);
  });

  it("ends although its result is stored only after that", async () => {
    const { test, sub } = await opened({ ordered: true });
    await using _ = test;
    const settles = holdSettles(test.storage);
    test.otherwise = replied(500);
    await test.start();
    await test.publish();
    await test.whenSent(1);
    await settle(test);
    await set(test, sub, "disabled");
    await set(test, sub, "active");
    settles.letGo();
    await settle(test);
    expect(await replayAll(test, sub, true)).toMatchObject({ matched: 1 });
    expect(await left(test)).toEqual([]);
  });

  it("ends in pages, of which a crash may leave any", async () => {
    const { test, sub } = await opened({ ordered: true });
    await using _ = test;
    test.otherwise = replied(500);
    await test.start();
    for (let n = 0; n < 120; n++) await test.publish();
    await test.whenSent(1);
    await settle(test);
    await test.parts.dispatcher.stop(0);
    await test.parts.sweeper.stop();
    let commits = 0;
    const { commit } = test.storage;
    const crashing: Storage["commit"] = (changes) =>
      ++commits > 2 ? Promise.reject(new Error("crashed")) : commit(changes);
    await set(test, sub, "disabled");
    await using next = await testPath({ storage: { ...test.storage, commit: crashing }, clock: test.clock });
    await next.start();
    await settle(next);
    expect((await test.storage.range("waiting:", { limit: 1_000 })).length).toBeGreaterThan(0);
    await using last = await testPath({ storage: test.storage, clock: test.clock });
    await last.start();
    await settle(last);
    expect(await left(last)).toEqual([]);
    expect(await faults(last.storage)).toEqual([]);
    expect(await listed(last, sub, "failed")).toHaveLength(100);
  });
});
