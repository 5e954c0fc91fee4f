import { describe, expect, it } from "vitest";
import { DELIVERY, EVENT } from "../../core/model/schema.ts";
import { Problem } from "../../core/model/problem.ts";
import type { Entry } from "../../core/ports/storage.ts";
import type { Reply } from "../../core/ports/transport.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";
import { faults } from "../support/wide.ts";

const DAY = 86_400_000;
const ACTOR = { sub: "tester" };

const settle = (test: TestPath): Promise<void> => test.clock.advance(0);
const erase = (test: TestPath, id: string): Promise<void> => test.parts.eventErasure.erase("key_1", id, []);
const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "done",
    (error: unknown) => (error instanceof Problem ? error.code : String(error)),
  );

/** Every row whose key or text has this in it. */
async function rowsWith(test: TestPath, text: string): Promise<string[]> {
  const all = await test.storage.range("", { limit: 10_000 });
  return all.filter(({ key, value }) => key.includes(text) || value.includes(text)).map(({ key }) => key);
}

async function rowsOn({ storage }: TestPath, ...prefixes: string[]): Promise<readonly Entry[]> {
  return (await Promise.all(prefixes.map((prefix) => storage.range(prefix)))).flat();
}

const ordinalOf = async (test: TestPath, id: string): Promise<string> => {
  const page = await test.parts.history.events("key_1", {}, { limit: 200 });
  return page.items.find(({ event }) => event.id === id)?.event.ordinal as string;
};

/** A path with one ordered subscription. */
async function inOrder(onFailed: "hold" | "skip"): Promise<{ readonly test: TestPath; readonly sub: string }> {
  const test = await testPath();
  const url = "https://receiver.example/hook";
  const given = { url, events: ["deposit:paid"], ordered: true, onFailed };
  const { subscription } = await test.parts.subscriptions.create("key_1", given, ACTOR);
  return { test, sub: subscription.id };
}

const idsOf = (test: TestPath): string[] => test.sent.map(({ headers }) => headers["webhook-id"] as string);

describe("erasing an event", () => {
  it("leaves nothing of one that was delivered, and says afterwards that it is not there", async () => {
    await using test = await testPath();
    await test.subscribe();
    await test.start();
    const id = await test.publish("deposit:paid", { data: { name: "Alice" } });
    await test.whenSent(1);
    await settle(test);
    const ordinal = await ordinalOf(test, id);
    await erase(test, id);
    expect(await rowsWith(test, ordinal)).toEqual([]);
    expect(await rowsWith(test, "Alice")).toEqual([]);
    expect(await codeOf(erase(test, id))).toBe("NOT_FOUND");
    expect(await faults(test.storage)).toEqual([]);
  });

  it("leaves nothing of one that failed and was replayed", async () => {
    await using test = await testPath({ retry: { attempts: 1 } });
    const id = await test.deliver(replied(500));
    expect(await test.status(id)).toBe("failed");
    await test.parts.replay.event("key_1", id);
    test.answers = [replied(500)];
    await test.whenSent(2);
    await settle(test);
    expect(await test.status(id)).toBe("failed");
    const ordinal = await ordinalOf(test, id);
    await erase(test, id);
    expect(await rowsWith(test, ordinal)).toEqual([]);
    expect(await codeOf(test.parts.replay.event("key_1", id))).toBe("NOT_FOUND");
    expect(await faults(test.storage)).toEqual([]);
  });

  it("never makes the attempt that a pending delivery waits for", async () => {
    await using test = await testPath();
    const id = await test.deliver(replied(500));
    expect(await test.status(id)).toBe("pending");
    await erase(test, id);
    await test.clock.advance(DAY);
    expect(test.sent).toHaveLength(1);
    expect(await rowsOn(test, "due:", "delivery:")).toEqual([]);
    expect(await test.storage.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
  });

  it("sends nothing of one that lies in the queue, though the cache had it", async () => {
    await using test = await testPath();
    await test.subscribe();
    const id = await test.publish();
    await erase(test, id);
    await test.start();
    await test.clock.advance(60_000);
    expect(test.sent).toEqual([]);
    expect(await rowsOn(test, "delivery:", "failed:")).toEqual([]);
    expect(await test.storage.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
  });

  it.each([
    ["delivered", 200],
    ["refused", 500],
    ["gone", 410],
  ])("brings nothing back when its attempt under way is %s later", async (_, status) => {
    await using test = await testPath();
    await test.subscribe();
    await test.start();
    const answer = Promise.withResolvers<Reply>();
    test.answers = [() => answer.promise];
    const id = await test.publish();
    await test.whenSent(1);
    await erase(test, id);
    answer.resolve(replied(status));
    await test.clock.advance(DAY);
    expect(test.sent).toHaveLength(1);
    expect(await rowsOn(test, "event:", "delivery:", "due:", "failed:", "attempts:")).toEqual([]);
    expect(await test.storage.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
  });

  it("keeps the publisher's own id taken for a day, and then gives it back", async () => {
    await using test = await testPath();
    await test.subscribe();
    await test.start();
    await test.publish("deposit:paid", { id: "order-7" });
    await test.clock.advance(5 * DAY);
    await erase(test, "order-7");
    expect(await rowsWith(test, "order-7")).toEqual([
      "eventid:key_1:order-7",
      expect.stringMatching(/^expiry:\d+:eventid:key_1:order-7$/),
    ]);
    expect(await codeOf(test.publish("deposit:paid", { id: "order-7" }))).toBe("IDEMPOTENCY_MISMATCH");
    expect(await codeOf(erase(test, "order-7"))).toBe("NOT_FOUND");
    expect(await faults(test.storage)).toEqual([]);
    await test.clock.advance(DAY);
    expect(await codeOf(test.publish("deposit:paid", { id: "order-7" }))).toBe("done");
    await test.clock.advance(DAY);
    expect(await test.status("order-7")).toBe("delivered");
    expect(await faults(test.storage)).toEqual([]);
  });

  it("can be of a damaged event with a damaged delivery", async () => {
    await using test = await testPath();
    const sub = await test.subscribe();
    await test.start();
    test.answers = [replied(500)];
    const id = await test.publish();
    await test.whenSent(1);
    await settle(test);
    const ordinal = await ordinalOf(test, id);
    for (const key of [EVENT.key({ keyId: "key_1", ordinal }), DELIVERY.key({ subscriptionId: sub, ordinal })]) {
      const text = (await test.storage.getItem(key)) as string;
      await test.storage.commit([{ op: "put", key, value: `${text}x`, if: text }]);
    }
    await erase(test, id);
    await test.clock.advance(DAY);
    expect(test.sent).toHaveLength(1);
    expect(await rowsOn(test, "event:", "delivery:", "due:", "failed:", "attempts:")).toEqual([]);
  });

  it("of which a delivery changes meanwhile is repeated with what it is then", async () => {
    await using test = await testPath();
    await test.subscribe();
    await test.start();
    const answer = Promise.withResolvers<Reply>();
    test.answers = [() => answer.promise];
    const id = await test.publish();
    await test.whenSent(1);
    const { commit } = test.storage;
    let refused = 0;
    test.storage.commit = async (changes) => {
      // The attempt ends between the reads and the commit of the erasure.
      if (changes.some(({ op, key }) => op === "delete" && key.startsWith("event:")) && refused++ === 0) {
        answer.resolve(replied(500));
        await new Promise((turned) => setTimeout(turned, 20));
      }
      return await commit(changes);
    };
    await erase(test, id);
    expect(refused).toBe(2);
    await test.clock.advance(DAY);
    expect(test.sent).toHaveLength(1);
    expect(await rowsOn(test, "event:", "delivery:", "due:")).toEqual([]);
  });
});

describe("erasing an event of an ordered subscription", () => {
  it("lets the others go on when it is the one whose turn it is", async () => {
    const { test } = await inOrder("hold");
    await using _ = test;
    await test.start();
    test.answers = [replied(500)];
    const [first, second] = [await test.publish(), await test.publish()];
    await test.whenSent(1);
    await settle(test);
    await erase(test, first);
    expect(await faults(test.storage)).toEqual([]);
    // At once: no sweep comes that soon.
    await test.clock.advance(1_000);
    expect(idsOf(test)).toEqual([first, second]);
    expect(await test.status(second)).toBe("delivered");
    expect(await faults(test.storage)).toEqual([]);
  });

  it("waits for its attempt under way, so that no later one begins meanwhile", async () => {
    const { test } = await inOrder("skip");
    await using _ = test;
    await test.start();
    const answer = Promise.withResolvers<Reply>();
    test.answers = [() => answer.promise];
    const first = await test.publish("deposit:paid", { id: "first" });
    await test.publish("deposit:paid", { id: "second" });
    await test.whenSent(1);
    let gone = false;
    const erasing = erase(test, first).then(() => (gone = true));
    await test.clock.advance(2_000);
    expect([gone, idsOf(test)]).toEqual([false, ["first"]]);
    answer.resolve(replied(500));
    await test.clock.advance(200);
    await erasing;
    await test.whenSent(2);
    await test.clock.advance(60_000);
    expect(idsOf(test)).toEqual(["first", "second"]);
    expect(await faults(test.storage)).toEqual([]);
  });

  it("waits no longer for an attempt that does not end than an attempt may take", async () => {
    const { test } = await inOrder("skip");
    await using _ = test;
    await test.start();
    const answer = Promise.withResolvers<Reply>();
    test.answers = [() => answer.promise];
    const first = await test.publish();
    await test.whenSent(1);
    let gone = false;
    const erasing = erase(test, first).then(() => (gone = true));
    await test.clock.advance(30_000);
    const seen = [gone];
    await test.clock.advance(2_000);
    seen.push(gone);
    answer.resolve(replied(200));
    await test.clock.advance(1_000);
    await erasing;
    expect(seen).toEqual([false, true]);
    expect(await faults(test.storage)).toEqual([]);
  });

  it("passes over it when it waits for its turn", async () => {
    const { test } = await inOrder("hold");
    await using _ = test;
    const made = [await test.publish(), await test.publish(), await test.publish()];
    await erase(test, made[1] as string);
    expect(await faults(test.storage)).toEqual([]);
    await test.start();
    await test.clock.advance(60_000);
    expect(idsOf(test)).toEqual([made[0], made[2]]);
    expect(await faults(test.storage)).toEqual([]);
  });

  it("ends the hold when it holds them up", async () => {
    const { test } = await inOrder("hold");
    await using _ = test;
    await test.start();
    test.answers = [replied(500), replied(500), replied(500), replied(500), replied(500)];
    const [first, second] = [await test.publish(), await test.publish()];
    await test.clock.advance(3 * DAY);
    expect(await test.status(first)).toBe("failed");
    expect(await test.status(second)).toBe("pending");
    await erase(test, first);
    await test.clock.advance(60_000);
    expect(await test.status(second)).toBe("delivered");
    expect(await test.storage.range("held:")).toEqual([]);
    expect(await faults(test.storage)).toEqual([]);
  });

  it("loses none of them when all that waits is erased while the first is on its way", async () => {
    const { test } = await inOrder("skip");
    await using _ = test;
    await test.start();
    const answer = Promise.withResolvers<Reply>();
    test.answers = [() => answer.promise];
    const made = await Promise.all(Array.from({ length: 12 }, () => test.publish()));
    await test.whenSent(1);
    const [head] = idsOf(test);
    const others = made.filter((id) => id !== head);
    answer.resolve(replied(200));
    const half = others.slice(0, 6);
    await Promise.all(half.map((id) => codeOf(erase(test, id))));
    await test.clock.advance(60_000);
    for (const id of half) expect(await codeOf(erase(test, id))).toBe("NOT_FOUND");
    for (const id of others.slice(6)) expect(await test.status(id)).toBe("delivered");
    expect(await faults(test.storage)).toEqual([]);
  });
});

describe("erasing an event with very many deliveries", () => {
  const FANOUT = { perEvent: 4, few: 2, page: 3 };

  it("stops the writing of its deliveries, and deletes those that are written", async () => {
    await using test = await testPath({ fanout: FANOUT });
    for (let n = 0; n < 10; n++) await test.subscribe();
    const id = await test.publish();
    const ordinal = await ordinalOf(test, id);
    await erase(test, id);
    await test.start();
    await test.clock.advance(120_000);
    expect(test.sent).toEqual([]);
    expect(await rowsWith(test, ordinal)).toEqual([]);
    expect(await faults(test.storage)).toEqual([]);
  });

  it("is finished by the next start after a crash in the middle of it", async () => {
    await using test = await testPath({ fanout: FANOUT });
    for (let n = 0; n < 10; n++) await test.subscribe();
    test.otherwise = replied(500);
    await test.start();
    const id = await test.publish();
    await test.whenSent(10);
    await settle(test);
    const ordinal = await ordinalOf(test, id);
    const { commit } = test.storage;
    test.storage.commit = (changes) =>
      changes.some(({ op, key }) => op === "delete" && key.startsWith("event:"))
        ? commit(changes)
        : Promise.reject(new Error("crashed"));
    await erase(test, id);
    expect(await test.storage.getItem(EVENT.key({ keyId: "key_1", ordinal }))).toBeUndefined();
    expect((await test.storage.range("delivery:")).length).toBe(10);
    test.storage.commit = commit;
    await using again = await testPath({ fanout: FANOUT, storage: test.storage, clock: test.clock });
    again.parts.eventErasure.start();
    await test.clock.advance(60_000);
    expect(await rowsWith(test, ordinal)).toEqual([]);
    expect(await faults(test.storage)).toEqual([]);
    expect(test.sent).toHaveLength(10);
  });
});
