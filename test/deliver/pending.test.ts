import { describe, expect, it } from "vitest";
import { createRecipients } from "../../core/records/recipients.ts";
import { createPendingDeliveries } from "../../core/replay/pending.ts";
import type { Problem } from "../../core/model/problem.ts";
import type { SubscriptionFields } from "../../core/subscriptions/subscriptions.ts";
import { ACTOR, faults, ids, pathOf, settle } from "../support/ordered.ts";
import { replied, type PathOptions, type TestPath } from "../support/path.ts";

const HOUR = 3_600_000;

const open = (fields: Partial<SubscriptionFields> = {}, options: PathOptions = {}) =>
  pathOf(fields, { retry: { firstDelayMs: HOUR, factor: 1 }, ...options });
const tryNow = (test: TestPath, event: string, sub: string): Promise<void> =>
  test.parts.pending.tryNow("key_1", event, sub, []);
const cancel = (test: TestPath, event: string, sub: string): Promise<void> =>
  test.parts.pending.cancel("key_1", event, sub, []);
const code = (act: Promise<unknown>): Promise<string> =>
  act.then(
    () => "done",
    (error: Problem) => error.code,
  );
const delivery = async (test: TestPath, event: string) =>
  (await test.parts.history.event("key_1", event))?.deliveries[0]?.delivery;
describe("a pending delivery that is tried now", () => {
  it("gets its next attempt at once, which counts like any other", async () => {
    const { test, sub } = await open();
    await using _ = test;
    test.answers = [replied(500), replied(503)];
    await test.start();
    const id = await test.publish();
    await test.answered(1);
    await tryNow(test, id, sub);
    await test.answered(2);
    const { status, attempts, cycle, nextAttemptAt } = (await delivery(test, id)) ?? {};
    expect({ status, cycle, codes: attempts?.map(({ statusCode }) => statusCode) }).toEqual({
      status: "pending",
      cycle: 0,
      codes: [500, 503],
    });
    expect(nextAttemptAt).toBeGreaterThan(test.clock.now() + HOUR / 2);
    expect(await faults(test)).toEqual([]);
    await tryNow(test, id, sub);
    await test.answered(3);
    expect(await test.status(id)).toBe("delivered");
    await test.clock.advance(3 * HOUR);
    expect(test.sent).toHaveLength(3);
  });

  it("is refused while its attempt is under way, and while a node waits with it for the next one", async () => {
    const { test, sub } = await open({}, { retry: { firstDelayMs: 20_000, factor: 1 } });
    await using _ = test;
    const { promise, resolve } = Promise.withResolvers<void>();
    test.answers = [() => promise.then(() => replied(500))];
    await test.start();
    const id = await test.publish();
    await test.whenSent(1);
    for (const act of [tryNow, cancel]) expect(await code(act(test, id, sub))).toBe("DELIVERY_UNDER_WAY");
    resolve();
    await settle(test);
    for (const act of [tryNow, cancel]) expect(await code(act(test, id, sub))).toBe("DELIVERY_UNDER_WAY");
    expect(test.sent).toHaveLength(1);
    await test.clock.advance(30_000);
    await test.answered(2);
    expect(await test.status(id)).toBe("delivered");
    for (const act of [tryNow, cancel]) expect(await code(act(test, id, sub))).toBe("NOT_PENDING");
  });

  it("is never tried twice at once, however often it is asked for", async () => {
    const { test, sub } = await open();
    await using _ = test;
    let open_ = 0;
    let most = 0;
    test.answers = [replied(500)];
    await test.start();
    const id = await test.publish();
    await test.answered(1);
    test.otherwise = async () => {
      most = Math.max(most, ++open_);
      for (let i = 0; i < 5; i++) await new Promise((turned) => setImmediate(turned));
      open_--;
      return replied(200);
    };
    const asked = Array.from({ length: 20 }, async () => {
      await new Promise((turned) => setImmediate(turned));
      return await code(tryNow(test, id, sub));
    });
    await Promise.all(asked);
    await test.answered(2);
    await test.clock.advance(2 * HOUR);
    expect({ most, sent: test.sent.length, status: await test.status(id) }).toEqual({
      most: 1,
      sent: 2,
      status: "delivered",
    });
    expect(await faults(test)).toEqual([]);
  });

  it("is refused when it is another key's, was never made, or has ended", async () => {
    const { test, sub } = await open();
    await using _ = test;
    const id = await test.publish();
    expect(await code(test.parts.pending.tryNow("key_2", id, sub, []))).toBe("NOT_FOUND");
    expect(await code(tryNow(test, "evt_none", sub))).toBe("NOT_FOUND");
    expect(await code(tryNow(test, id, "sub_none"))).toBe("NOT_FOUND");
    await test.parts.subscriptions.update("key_1", sub, { status: "disabled" }, ACTOR);
    expect(await code(tryNow(test, id, sub))).toBe("NOT_PENDING");
    expect(await code(cancel(test, id, sub))).toBe("NOT_PENDING");
  });

  it.each(["tryNow", "cancel"] as const)("is not there when its event is erased at that moment (%s)", async (act) => {
    const { test, sub } = await open();
    await using _ = test;
    const id = await test.publish();
    const erasing = {
      ...createRecipients(test.storage),
      has: async () => {
        await test.parts.eventErasure.erase("key_1", id, []);
        return true;
      },
    };
    const { storage, clock, parts } = test;
    const { subscriptionCache } = parts;
    const pending = createPendingDeliveries({ storage, subscriptionCache, clock, recipients: erasing });
    expect(await code(pending[act]("key_1", id, sub, []))).toBe("NOT_FOUND");
  });
});

describe("a pending delivery that is cancelled", () => {
  it("gives the next in order its turn at once", async () => {
    const { test, sub } = await open({ ordered: true }, { delivery: { holdMs: 1_000 } });
    await using _ = test;
    test.answers = [replied(500)];
    await test.start();
    const [first, second] = [await test.publish(), await test.publish()];
    await test.answered(1);
    await cancel(test, first, sub);
    for (let n = 0; n < 20 && test.sent.length < 2; n++) await settle(test);
    expect(ids(test)).toEqual([first, second]);
  });

  it("is not sent any more, says why, and is sent after all when it is replayed by name", async () => {
    const { test, sub } = await open();
    await using _ = test;
    const id = await test.publish();
    await cancel(test, id, sub);
    await test.start();
    await test.clock.advance(HOUR);
    expect(test.sent).toEqual([]);
    expect(await delivery(test, id)).toMatchObject({ status: "cancelled", reason: "cancel_requested", attempts: [] });
    expect(await test.status(id)).toBe("cancelled");
    expect(await faults(test)).toEqual([]);
    expect(await code(test.parts.replay.event("key_1", id))).toBe("NOT_REPLAYABLE");
    expect(await test.parts.replay.event("key_1", id, { subscriptionId: sub })).toBe(1);
    await test.answered(1);
    expect(await test.status(id)).toBe("delivered");
    expect(await faults(test)).toEqual([]);
  });

  it("keeps its attempts, and those that are selected by the replay of all failed ones leave it alone", async () => {
    const { test, sub } = await open();
    await using _ = test;
    test.answers = [replied(500)];
    await test.start();
    const id = await test.publish();
    await test.answered(1);
    await cancel(test, id, sub);
    expect((await delivery(test, id))?.attempts).toHaveLength(1);
    const subscription = await test.subscription(sub);
    const { matched } = await test.parts.replay.failed({
      subscription,
      limit: 10,
      perSecond: 10,
    });
    expect(matched).toBe(0);
  });
});

describe("a delivery that goes in order", () => {
  it("is not tried before its turn, and says behind what it waits", async () => {
    const { test, sub } = await open({ ordered: true });
    await using _ = test;
    const [, second] = [await test.publish(), await test.publish()];
    await expect(tryNow(test, second, sub)).rejects.toMatchObject({
      code: "NOT_PENDING",
      detail: expect.stringContaining("waits for its turn"),
    });
    expect(await faults(test)).toEqual([]);
  });

  it.each(["skip", "hold"] as const)(
    "lets the next one go when it is cancelled, with onFailed %s",
    async (onFailed) => {
      const { test, sub } = await open({ ordered: true, onFailed });
      await using _ = test;
      const [first, second, third] = [await test.publish(), await test.publish(), await test.publish()];
      // One in the middle, then the one whose turn it is.
      await cancel(test, second, sub);
      expect(await faults(test)).toEqual([]);
      await cancel(test, first, sub);
      expect(await faults(test)).toEqual([]);
      await test.start();
      await test.answered(1);
      expect(ids(test)).toEqual([third]);
      expect(await faults(test)).toEqual([]);
      await test.parts.replay.event("key_1", first, { subscriptionId: sub });
      await test.answered(2);
      expect(ids(test)).toEqual([third, first]);
      expect(await faults(test)).toEqual([]);
    },
  );
});
