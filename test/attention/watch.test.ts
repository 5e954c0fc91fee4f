// Notices of what needs attention and has no notice of its own: once over nodes and looks, and again when it is over.
import { hostname } from "node:os";
import { describe, expect, it } from "vitest";
import { AttentionWatch } from "../../core/attention/watch.ts";
import type { Parts } from "../../core/attention/attention.ts";
import { OPERATOR_KEY } from "../../core/model/names.ts";
import { ATTENTION } from "../../core/model/schema.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";

const ACTOR = { sub: "tester" };
const KEY = "key_1";

interface Told {
  readonly to: string;
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}
const told = ({ sent }: TestPath): readonly Told[] =>
  sent.flatMap(({ subscriptionId: to, body }) => {
    const { type, data } = JSON.parse(Buffer.from(body).toString()) as Told;
    return type.startsWith("relay:attention.") ? [{ to, type, data }] : [];
  });

/** An ordered endpoint that refuses what it gets, with those who listen to its key and to all. */
async function watched(parts: () => Parts = () => ({ relay: { ready: true } })) {
  const test = await testPath({ retry: { attempts: 1 } });
  const { subscription } = await test.parts.subscriptions.create(
    KEY,
    { url: "https://receiver.example/hook", events: ["deposit:*"], ordered: true, onFailed: "hold" },
    ACTOR,
  );
  const listener = await test.subscribe(["relay:attention.*"]);
  const operator = await test.subscribe(["relay:attention.*"], OPERATOR_KEY);
  const says = { status: 500 };
  test.otherwise = ({ subscriptionId }) =>
    Promise.resolve(replied(subscriptionId === subscription.id ? says.status : 200));
  await test.start();
  const watch = () => new AttentionWatch({ ...test.parts, readiness: async () => parts() });
  const first = watch();
  const look = async (one = first): Promise<void> => {
    await one.look(new AbortController().signal);
    await test.parts.notices.settled();
    await test.clock.advance(0);
  };
  return Object.assign(test, { held: subscription.id, listener, operator, says, watch, look });
}

/** Has one delivery hold up another. */
async function hold(test: TestPath): Promise<void> {
  await test.publish();
  await test.publish();
  await test.clock.advance(31_000);
}

describe("a notice of what needs attention", () => {
  it("comes once for the key and once for the operator, and again when it is over", async () => {
    await using test = await watched();
    await test.look();
    expect(told(test)).toEqual([]);
    await hold(test);
    await test.look();
    await test.look();
    await test.look(test.watch());
    expect(told(test)).toHaveLength(2);
    const data = { state: "held", subscriptionId: test.held, host: "receiver.example", since: expect.any(String) };
    const needed = {
      type: "relay:attention.needed",
      data: { ...data, reason: "A failed delivery holds up the 1 behind it", help: expect.stringMatching(/skip it/) },
    };
    expect(told(test)).toEqual(
      expect.arrayContaining([
        { to: test.listener, ...needed },
        { to: test.operator, ...needed, data: { keyId: KEY, ...needed.data } },
      ]),
    );

    test.says.status = 200;
    await test.parts.replay.failed({ subscription: await test.subscription(test.held), limit: 10, perSecond: 100 });
    await test.clock.advance(1_000);
    await test.look(test.watch());
    await test.look();
    const over = told(test).slice(2);
    expect(over.map(({ to }) => to).toSorted()).toEqual([test.listener, test.operator].toSorted());
    for (const { type, data: said } of over) {
      expect(type).toBe("relay:attention.recovered");
      expect(said).toMatchObject({ state: "held", subscriptionId: test.held });
    }
    expect(await test.storage.range(ATTENTION.start)).toEqual([]);
  });

  it("does not come of what somebody has acknowledged, whose note goes when it is over", async () => {
    await using test = await watched();
    await hold(test);
    expect(await test.parts.attention.acknowledge(KEY, `${test.held}.held`, true, ACTOR)).toBe(true);
    await test.look();
    expect(told(test)).toEqual([]);
    expect(await test.storage.range(ATTENTION.start)).toHaveLength(1);
    await test.parts.subscriptions.remove(KEY, test.held, ACTOR);
    await test.look();
    expect(told(test)).toEqual([]);
    expect(await test.storage.range(ATTENTION.start)).toEqual([]);
  });

  it("is noted for nobody where nobody listens", async () => {
    await using test = await watched();
    await test.parts.subscriptions.remove(KEY, test.listener, ACTOR);
    await test.parts.subscriptions.remove(OPERATOR_KEY, test.operator, ACTOR);
    await hold(test);
    await test.look();
    expect(await test.storage.range(ATTENTION.start)).toEqual([]);
  });

  it("tells the operator of a part of the relay that stays away, and when it is back", async () => {
    let parts: Parts = { "source:kafka#2": { ready: false, state: "is away", required: false } };
    await using test = await watched(() => parts);
    await test.look();
    expect(told(test)).toEqual([]);
    await test.clock.advance(31_000);
    await test.look();
    await test.look();
    const about = { state: "source_away", part: `source:kafka#2@${hostname()}` };
    expect(told(test)).toMatchObject([
      { to: test.operator, type: "relay:attention.needed", data: { ...about, reason: "is away" } },
    ]);
    parts = {};
    await test.look();
    expect(told(test).slice(1)).toEqual([{ to: test.operator, type: "relay:attention.recovered", data: about }]);
  });
});

it("a note that is damaged is written anew", async () => {
  await using test = await watched();
  await hold(test);
  const { attention } = test.parts;
  const items = await attention.ofKey(KEY);
  expect(items.map(({ state }) => state)).toEqual(["held", "failing"]);
  await test.storage.commit([
    { op: "put", key: ATTENTION.key({ keyId: KEY, about: test.held, state: "held" }), value: "{" },
  ]);
  await test.look();
  expect(told(test)).toHaveLength(2);
});
