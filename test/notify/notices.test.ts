// Notices: what the relay reports of its own states, at most one of a kind about one thing within an hour.
import { describe, expect, it } from "vitest";
import { ConflictError, StorageError } from "../../core/model/errors.ts";
import { OPERATOR_KEY } from "../../core/model/names.ts";
import { Notices } from "../../core/notify/notices.ts";
import { createPublisher } from "../../core/publish/accept.ts";
import { NoticeWatch } from "../../core/notify/watch.ts";
import { replied, testPath, type PathOptions, type TestPath } from "../support/path.ts";

const HOUR = 3_600_000;
const BREAKER = { breakerAfter: 2, breakerPauseMs: 1_000, breakerMaxPauseMs: 60_000, disableAfterMs: 864_000_000 };
const ACTOR = { sub: "tester" };

interface Told {
  readonly to: string;
  readonly type: string;
  readonly keyId: string;
  readonly data: Readonly<Record<string, unknown>>;
}

const told = (test: TestPath, prefix = "relay:"): readonly Told[] =>
  test.sent.flatMap(({ subscriptionId: to, body }) => {
    const { type, keyId, data } = JSON.parse(Buffer.from(body).toString()) as Told;
    return type.startsWith(prefix) ? [{ to, type, keyId, data }] : [];
  });

/** A receiver that `test.bad` names and that answers `test.says`, and listeners on its key and of the operator. */
async function watched(options: PathOptions = {}) {
  const test = await testPath({ retry: { attempts: 1 }, health: BREAKER, ...options });
  const bad = await test.subscribe(["deposit:*"]);
  const names = ["relay:breaker.*", "relay:subscription.*", "relay:secret.*", "relay:pending.*"];
  const listener = await test.subscribe(names);
  const operator = await test.subscribe(names, OPERATOR_KEY);
  const made = Object.assign(test, { bad, listener, operator, says: 500, look: () => look(test) });
  test.otherwise = (request) => Promise.resolve(replied(request.subscriptionId === bad ? made.says : 200));
  await test.start();
  return made;
}

/** The notices of another process on the same storage. */
function another({ parts }: TestPath, clock: TestPath["clock"] = parts.clock as TestPath["clock"]): Notices {
  return new Notices({ ...parts, clock, publisher: createPublisher({ ...parts, clock, maxPending: 0 }) });
}

/** One look, and the sending of what it finds. */
async function look(test: TestPath): Promise<void> {
  await test.parts.noticeWatch.look(new AbortController().signal);
  await stored(test);
}

async function stored(test: TestPath): Promise<void> {
  await test.clock.advance(0);
  await test.parts.circuitBreaker.settled();
  await test.parts.notices.settled();
  await test.clock.advance(0);
}

/** Publishes, and has the attempt made and stored. */
async function attempt(test: TestPath): Promise<void> {
  await test.publish();
  await stored(test);
}

it("thousands of one notice at once cost no more than the first of them, and are counted", async () => {
  await using test = await watched();
  const { notices } = test.parts;
  const { getMany } = test.storage;
  let reads = 0;
  test.storage.getMany = (keys) => {
    if (keys.some((key) => key.startsWith("eventid:"))) reads++;
    return getMany(keys);
  };
  const notice = { type: "relay:subscription.failing", keyId: "key_1", about: test.bad, data: {} } as const;
  for (let n = 0; n < 3_000; n++) notices.tell(notice);
  await stored(test);
  expect(reads).toBeLessThanOrEqual(2);
  const heard = () => told(test, "relay:subscription.failing").filter(({ to }) => to === test.listener);
  expect(heard()).toHaveLength(1);
  await test.clock.advance(HOUR);
  await test.look();
  expect(heard().map(({ data }) => data["heldBack"])).toEqual([undefined, 2_998]);
});

describe("a circuit breaker", () => {
  it("that opens and closes is reported to its key and to the operator, who reads whose it is", async () => {
    await using test = await watched();
    await attempt(test);
    await attempt(test);
    const opened = { subscriptionId: test.bad, host: "receiver.example", failures: 2 };
    expect(told(test, "relay:breaker.")).toEqual([
      expect.objectContaining({ to: test.listener, keyId: "key_1", data: expect.objectContaining(opened) }),
      expect.objectContaining({
        to: test.operator,
        keyId: OPERATOR_KEY,
        data: expect.objectContaining({ keyId: "key_1", ...opened }),
      }),
    ]);
    test.says = 200;
    await test.publish();
    await test.clock.advance(2_000);
    await stored(test);
    expect(told(test, "relay:breaker.closed").map(({ to }) => to)).toEqual([test.listener, test.operator]);
  });

  it("that flaps is reported once an hour, however often, and then as it stands", async () => {
    await using test = await watched();
    for (let flaps = 0; flaps < 10; flaps++) {
      test.says = 500;
      await attempt(test);
      await attempt(test);
      test.says = 200;
      await test.publish();
      await test.clock.advance(2_000);
      await stored(test);
    }
    const heard = () => told(test, "relay:breaker.").filter(({ to }) => to === test.operator);
    expect(heard().map(({ type }) => type)).toEqual(["relay:breaker.opened", "relay:breaker.closed"]);
    await test.clock.advance(HOUR);
    await test.look();
    expect(heard().map(({ type }) => type)).toEqual([
      "relay:breaker.opened",
      "relay:breaker.closed",
      "relay:breaker.closed",
    ]);
    expect(heard().at(-1)?.data).toMatchObject({ heldBack: 8 });
    await test.clock.advance(HOUR);
    await test.look();
    expect(heard()).toHaveLength(3);
  });

  it("of a subscription that only fails to take operational events is reported to nobody: it would never end", async () => {
    await using test = await watched();
    test.otherwise = replied(500);
    for (let failed = 0; failed < 6; failed++) {
      await attempt(test);
      await test.clock.advance(HOUR);
      await test.look();
    }
    expect(new Set(told(test).map(({ data }) => data["subscriptionId"]))).toEqual(new Set([test.bad]));
    expect(told(test).length).toBeLessThan(30);
  });
});

describe("a failed delivery", () => {
  it("is reported at once, those of the next hour together when it is over", async () => {
    await using test = await watched({ health: false });
    for (let failed = 0; failed < 5; failed++) await attempt(test);
    const heard = () => told(test, "relay:subscription.failing").filter(({ to }) => to === test.listener);
    expect(heard().map(({ data }) => data["heldBack"])).toEqual([undefined]);
    await test.clock.advance(HOUR);
    await test.look();
    expect(heard().map(({ data }) => data["heldBack"])).toEqual([undefined, 3]);
  });
});

describe("a notice", () => {
  it("is reported by one node alone, and by no later process within the hour", async () => {
    await using test = await watched({ health: false });
    await test.clock.advance(HOUR - (test.clock.now() % HOUR) - 60_000);
    await attempt(test);
    const again = another(test);
    const notice = { type: "relay:subscription.failing", keyId: "key_1", about: test.bad, data: {} } as const;
    again.tell(notice);
    await again.settled();
    await stored(test);
    expect(told(test, "relay:subscription.failing")).toHaveLength(2);
    // Shortly after the next full hour it is still the same hour since.
    await test.clock.advance(HOUR - (test.clock.now() % HOUR) + 1);
    again.tell(notice);
    await again.settled();
    await stored(test);
    expect(told(test, "relay:subscription.failing")).toHaveLength(2);
    await test.clock.advance(HOUR);
    await again.flush();
    await stored(test);
    expect(told(test, "relay:subscription.failing")).toHaveLength(4);
  });

  it("that many nodes report at the same moment is published once", async () => {
    await using test = await watched({ health: false });
    await test.clock.advance(HOUR - (test.clock.now() % HOUR));
    // Their clocks differ: for some of them the next full hour has begun.
    const nodes = [-3, -2, -1, 0, 1, 2].map((seconds) => {
      const clock = { ...test.clock, now: () => test.clock.now() + seconds * 1_000 };
      return another(test, clock);
    });
    for (const node of nodes)
      node.tell({ type: "relay:breaker.opened", keyId: "key_1", about: test.bad, data: { subscriptionId: test.bad } });
    await Promise.all(nodes.map((node) => node.settled()));
    await stored(test);
    expect(told(test).map(({ to }) => to)).toEqual([test.listener, test.operator]);
  });

  it("that cannot be stored keeps nothing else from being stored, and follows", async () => {
    await using test = await watched();
    const { getMany } = test.storage;
    let broken = true;
    test.storage.getMany = (keys) =>
      broken && keys.some((key) => key.startsWith("eventid:"))
        ? Promise.reject(new StorageError("unavailable", "a hiccup"))
        : getMany.call(test.storage, keys);
    await attempt(test);
    await attempt(test);
    expect(await test.storage.getItem(`health:${test.bad}`)).toBeDefined();
    expect(told(test)).toEqual([]);
    broken = false;
    await test.clock.advance(30_000);
    await test.look();
    expect(told(test, "relay:breaker.opened")).toHaveLength(2);
  });

  it("that loses against changed subscriptions again and again keeps nothing else from being stored, and follows", async () => {
    await using test = await watched();
    const { commit } = test.storage;
    let changing = true;
    test.storage.commit = (changes) =>
      changing && changes.some(({ key }) => key.startsWith("eventid:"))
        ? Promise.reject(new ConflictError(["subscription:"]))
        : commit.call(test.storage, changes);
    const { notices } = test.parts;
    await notices.commitWith([{ op: "put", key: "health:other", value: "{}" }], {
      ...{ type: "relay:breaker.opened", keyId: "key_1", about: "other", data: {} },
    });
    notices.tell({ type: "relay:subscription.failing", keyId: "key_1", about: test.bad, data: {} });
    await stored(test);
    expect(await test.storage.getItem("health:other")).toBe("{}");
    expect(told(test)).toEqual([]);
    changing = false;
    await test.clock.advance(30_000);
    await test.look();
    expect(told(test, "relay:breaker.opened")).toHaveLength(2);
    expect(told(test, "relay:subscription.failing")).toHaveLength(2);
  });

  it("of what another node has found first is not reported again an hour later", async () => {
    await using test = await watched();
    const notice = { type: "relay:secret.expiring", keyId: "key_1", about: test.bad, data: {} } as const;
    const row = { key: "overlap:x", value: "1" };
    await test.storage.commit([{ op: "put", ...row }]);
    const node = () => another(test);
    const [first, second] = [node(), node()];
    const found = [{ op: "delete", key: row.key, if: row.value }] as const;
    await first.commitWith(found, notice);
    await expect(second.commitWith(found, notice)).rejects.toBeInstanceOf(ConflictError);
    await stored(test);
    await test.clock.advance(HOUR);
    await second.flush();
    await stored(test);
    expect(told(test, "relay:secret.expiring").map(({ to }) => to)).toEqual([test.listener, test.operator]);
  });

  it("about the operator's own subscriptions is reported to nobody", async () => {
    await using test = await watched();
    await test.parts.subscriptions.update(OPERATOR_KEY, test.operator, { status: "disabled" }, ACTOR);
    await stored(test);
    expect(told(test)).toEqual([]);
  });
});

describe("the overlap of a rotation", () => {
  it("is reported when a quarter of it is left, once", async () => {
    await using test = await watched();
    const ends = test.clock.now() + 86_400_000;
    await test.parts.subscriptions.rotate("key_1", test.bad, 86_400_000, ACTOR);
    await test.clock.advance(86_400_000 * 0.75 - 1_000);
    await test.look();
    expect(told(test)).toEqual([]);
    await test.clock.advance(2_000);
    await test.look();
    await test.look();
    const heard = told(test, "relay:secret.expiring");
    expect(heard.map(({ to }) => to)).toEqual([test.listener, test.operator]);
    expect(heard[0]?.data).toMatchObject({
      subscriptionId: test.bad,
      previousSecretExpiresAt: new Date(ends).toISOString(),
    });
    expect(await test.storage.range("overlap:")).toEqual([]);
  });

  it("that another rotation has ended, or a deletion, is not reported", async () => {
    await using test = await watched();
    await test.parts.subscriptions.rotate("key_1", test.bad, 86_400_000, ACTOR);
    await test.parts.subscriptions.rotate("key_1", test.bad, 0, ACTOR);
    const other = await test.subscribe();
    await test.parts.subscriptions.rotate("key_1", other, 86_400_000, ACTOR);
    await test.parts.subscriptions.remove("key_1", other, ACTOR);
    await test.clock.advance(86_000_000);
    await test.look();
    expect(told(test)).toEqual([]);
    expect(await test.storage.range("overlap:")).toEqual([]);
  });
});

describe("a backlog", () => {
  it("above its bound is reported for the key and for the relay, again while it lasts an hour later", async () => {
    await using test = await watched({ notify: { pending: 4, pendingPerKey: 4 } });
    test.parts.gates.pause(test.bad, "retry_after", 10 * HOUR);
    for (let i = 0; i < 5; i++) await test.publish();
    await test.subscribe(["deposit:*"], "key_2");
    await test.look();
    await test.look();
    const heard = () =>
      told(test, "relay:pending.high").map(({ to, data }) => ({ to, keyId: data["keyId"], bound: data["bound"] }));
    const expected = [
      { to: test.operator, keyId: undefined, bound: 4 },
      { to: test.listener, keyId: undefined, bound: 4 },
      { to: test.operator, keyId: "key_1", bound: 4 },
    ];
    expect(heard()).toEqual(expect.arrayContaining(expected));
    expect(heard()).toHaveLength(3);
    await test.clock.advance(HOUR);
    await test.look();
    expect(heard()).toHaveLength(6);
    expect(told(test, "relay:pending.high").at(-1)?.data["heldBack"]).toBe(1);
  });

  it("that is gone before its hour is over is not reported again", async () => {
    await using test = await watched({ notify: { pending: 4, pendingPerKey: 4 } });
    test.says = 200;
    test.parts.gates.pause(test.bad, "retry_after", 60_000);
    for (let i = 0; i < 5; i++) await test.publish();
    await test.look();
    await test.clock.advance(30_000);
    await test.look();
    await test.clock.advance(60_000);
    expect((await test.storage.queue.depth()).waiting).toBe(0);
    const before = told(test, "relay:pending.high").length;
    expect(before).toBe(3);
    await test.clock.advance(HOUR);
    await test.look();
    expect(told(test, "relay:pending.high")).toHaveLength(before);
  });

  it("of a key that is named as the relay is not held back for that of the whole relay", async () => {
    await using test = await watched({ notify: { pending: 4, pendingPerKey: 4 } });
    const slow = await test.subscribe(["deposit:*"], "relay");
    test.parts.gates.pause(slow, "retry_after", 10 * HOUR);
    for (let i = 0; i < 5; i++) await test.publish("deposit:paid", { keyId: "relay" });
    await test.look();
    const about = told(test, "relay:pending.high").map(({ data }) => data["keyId"]);
    expect(about).toHaveLength(2);
    expect(about).toEqual(expect.arrayContaining([undefined, "relay"]));
  });

  it("is counted key by key, a share of them at each look", async () => {
    await using test = await watched();
    const asked: string[] = [];
    const { storage, subscriptionCache, notices, log } = test.parts;
    for (let i = 0; i < 150; i++) await test.subscribe(["deposit:*"], `many_${String(i).padStart(3, "0")}`);
    const queue = {
      depth: async () => ({ waiting: 10, leased: 0 }),
      pending: async ([id = ""]: readonly string[]) => (await test.clock.advance(20), asked.push(id), 0),
    };
    const watch = new NoticeWatch({
      storage: { range: storage.range.bind(storage), commit: storage.commit.bind(storage), queue },
      ...{ subscriptionCache, notices, clock: test.clock, log },
      plan: { notify: { pending: 0, pendingPerKey: 1 } },
    });
    const { signal } = new AbortController();
    await watch.look(signal);
    expect(asked).toHaveLength(100);
    await watch.look(signal);
    expect(asked).toHaveLength(151);
    expect(new Set(asked).size).toBe(151);
  });
});
