// Operational events: what the relay tells of its own doing, to those who ask for names that start with `relay:`.
import { describe, expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";

const ONCE = { attempts: 1 };
const HEALTH = { breakerAfter: 100, breakerPauseMs: 1_000, breakerMaxPauseMs: 1_000, disableAfterMs: 60_000 };

interface Told {
  readonly to: string;
  readonly type: string;
  readonly data: unknown;
}

/** Operational events that were sent, in order, but for the notice that comes at most once an hour. */
const told = (test: TestPath): readonly Told[] =>
  test.sent.flatMap(({ subscriptionId, headers, body }) => {
    const type = headers["X-Relay-Event"] ?? "";
    if (!type.startsWith("relay:") || type === "relay:subscription.failing") return [];
    return [{ to: subscriptionId, type, data: (JSON.parse(Buffer.from(body).toString()) as { data: unknown }).data }];
  });

/** Everything but the operational events of one listener fails as `status` says. */
async function listening(status: number, options: Parameters<typeof testPath>[0] = {}) {
  const test = await testPath({ retry: ONCE, ...options });
  const bad = await test.subscribe(["deposit:*"]);
  const listener = await test.subscribe(["relay:*"]);
  test.otherwise = (request) => Promise.resolve(replied(request.subscriptionId === bad ? status : 200));
  await test.start();
  return Object.assign(test, { bad, listener });
}

describe("a failed delivery", () => {
  it("is reported once, with what failed, to nobody but those who ask for it", async () => {
    await using test = await listening(500);
    await test.subscribe(["*"]);
    const id = await test.publish();
    await test.whenSent(3);
    await test.clock.advance(1_000);
    expect(told(test)).toEqual([
      {
        to: test.listener,
        type: "relay:delivery.failed",
        data: expect.objectContaining({ eventId: id, subscriptionId: test.bad, reason: "exhausted", attempts: 1 }),
      },
    ]);
  });

  it("is settled though the storage cannot read what the notice needs: no sixth request, and the notice follows", async () => {
    await using test = await listening(500, { retry: { attempts: 5 } });
    const { getMany } = test.storage;
    let refused = 0;
    const id = await test.publish();
    for (const ms of [0, 6_000, 22_000, 88_000]) await test.clock.advance(ms);
    await test.whenSent(4);
    // The names of a key are read once; this one is new to the process, and its first notice has to look them up.
    test.storage.getMany = (keys) => {
      if (refused++ < 2) return Promise.reject(new StorageError("unavailable", "a hiccup"));
      return getMany.call(test.storage, keys);
    };
    for (let waited = 0; waited < 10; waited++) await test.clock.advance(400_000);
    expect(refused).toBeGreaterThan(0);
    expect(await test.status(id)).toBe("failed");
    expect(test.sent.filter(({ subscriptionId }) => subscriptionId === test.bad)).toHaveLength(5);
    expect(told(test)).toHaveLength(1);
  });

  it("of an operational event is reported to nobody: it would never end", async () => {
    await using test = await listening(500);
    test.otherwise = replied(500);
    await test.publish();
    await test.whenSent(2);
    await test.clock.advance(3_600_000);
    expect(told(test)).toHaveLength(1);
  });
});

describe("a subscription that the relay disables", () => {
  it("because its endpoint is gone is reported in the same commit", async () => {
    await using test = await listening(410);
    const commits: string[][] = [];
    const { commit } = test.storage;
    test.storage.commit = async (changes) => {
      commits.push(changes.map(({ key }) => key.slice(0, key.indexOf(":"))));
      await commit(changes);
    };
    await test.publish();
    await test.whenSent(3);
    await test.clock.advance(1_000);
    expect(told(test).toSorted((a, b) => (a.type < b.type ? -1 : 1))).toEqual([
      { to: test.listener, type: "relay:delivery.failed", data: expect.objectContaining({ reason: "endpoint_gone" }) },
      {
        to: test.listener,
        type: "relay:subscription.disabled",
        data: { subscriptionId: test.bad, host: "receiver.example", reason: "endpoint_gone" },
      },
    ]);
    expect(commits.filter((shelves) => shelves.includes("subscription"))).toEqual([
      expect.arrayContaining(["subscription", "audit", "event", "due"]),
    ]);
  });

  it("because it only failed for days is reported", async () => {
    await using test = await listening(500, { health: HEALTH });
    await test.publish();
    await test.clock.advance(60_000);
    await test.publish();
    await test.clock.advance(1_000);
    await test.parts.circuitBreaker.settled();
    await test.clock.advance(1_000);
    expect(told(test).filter(({ type }) => type === "relay:subscription.disabled")).toEqual([
      {
        to: test.listener,
        type: "relay:subscription.disabled",
        data: { subscriptionId: test.bad, host: "receiver.example", reason: "endpoint_failing" },
      },
    ]);
  });

  it("is reported once, however many of its requests find the endpoint gone", async () => {
    await using test = await listening(410);
    for (let i = 0; i < 10; i++) await test.publish();
    await test.clock.advance(1_000);
    expect(told(test).filter(({ type }) => type === "relay:subscription.disabled")).toHaveLength(1);
  });

  it("by answering an operational event is not reported: those cause none", async () => {
    await using test = await testPath({ retry: ONCE });
    const first = await test.subscribe(["relay:*"]);
    await test.subscribe(["relay:*"]);
    test.otherwise = (request) => Promise.resolve(replied(request.subscriptionId === first ? 410 : 200));
    await test.start();
    await test.parts.operational.accept("key_1", "relay:delivery.failed", {});
    await test.clock.advance(1_000);
    expect(told(test)).toHaveLength(2);
    expect(await test.parts.subscriptionCache.get("key_1", first)).toMatchObject({ status: "disabled" });
  });

  it("by hand is reported, with that reason", async () => {
    await using test = await listening(200);
    await test.parts.subscriptions.update("key_1", test.bad, { status: "disabled" }, { sub: "t" });
    await test.clock.advance(1_000);
    await test.whenSent(1);
    expect(told(test)).toEqual([
      {
        to: test.listener,
        type: "relay:subscription.disabled",
        data: { subscriptionId: test.bad, host: "receiver.example", reason: "by_hand" },
      },
    ]);
  });
});
