// How long events are kept when some keys and types differ.
import { describe, expect, it } from "vitest";
import { ATTEMPTS } from "../../core/model/schema.ts";
import { keepOf, removesAny, ruleOf, youngestOf } from "../../core/retention/options.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";

const DAY = 86_400_000;
const now = new AbortController().signal;
const left = async (test: TestPath): Promise<number> => (await test.storage.range("event:", { limit: 1_000 })).length;

describe("the rules of retention", () => {
  const options = {
    deliveredAfterMs: 30 * DAY,
    keys: { key_x: { deliveredAfterMs: 7 * DAY }, key_y: { deliveredAfterMs: false, failedAfterMs: 2 * DAY } },
    types: {
      "deposit:*": { deliveredAfterMs: 90 * DAY, failedAfterMs: 60 * DAY },
      "deposit:paid": { failedAfterMs: DAY },
    },
  } as const;

  it("are those of the key, else of the first type that matches, else of the job", () => {
    const kept = (keyId: string, type: string) => Object.values(keepOf(options, keyId, type));
    expect(kept("key_1", "withdraw:paid")).toEqual([30 * DAY, undefined]);
    expect(kept("key_1", "deposit:paid")).toEqual([90 * DAY, 60 * DAY]);
    expect(kept("key_x", "deposit:paid")).toEqual([7 * DAY, 60 * DAY]);
    expect(kept("key_y", "deposit:paid")).toEqual([undefined, 2 * DAY]);
    expect(kept("toString", "constructor")).toEqual([30 * DAY, undefined]);
  });

  it("say how young an event of a key may be deleted", () => {
    expect(youngestOf(options, "key_1")).toBe(DAY);
    expect(youngestOf(options, "key_y")).toBe(2 * DAY);
    expect(youngestOf({ keys: { key_1: { failedAfterMs: DAY } } }, "key_2")).toBeUndefined();
    expect(removesAny({ keys: { key_1: { failedAfterMs: false } } })).toBe(false);
    expect(removesAny({ types: { "*": { failedAfterMs: DAY } } })).toBe(true);
  });

  it("have a name that changes with each of them, and is the old one where there are none", () => {
    expect(ruleOf({ deliveredAfterMs: 5 })).toBe("5_never");
    const names = [options, { ...options, keys: {} }, { ...options, types: {} }, { deliveredAfterMs: 30 * DAY }].map(
      ruleOf,
    );
    expect(new Set(names).size).toBe(4);
    for (const name of names) expect(name).toMatch(/^[0-9a-z_]+$/);
  });
});

describe("retention by key and type", () => {
  it("deletes each event when its own time has come, in runs that each cost what they delete", async () => {
    await using test = await testPath();
    const publish = (keyId: string, type: string) => test.publish(type, { keyId });
    for (const keyId of ["key_1", "key_x", "key_y"])
      for (const type of ["deposit:paid", "withdraw:paid"]) await publish(keyId, type);
    const options = {
      deliveredAfterMs: 30 * DAY,
      keys: { key_x: { deliveredAfterMs: 7 * DAY }, key_y: { deliveredAfterMs: false } },
      types: { "deposit:*": { deliveredAfterMs: 60 * DAY } },
    } as const;
    const { run } = test.parts.retention;
    const gone: number[] = [];
    for (const days of [2, 6, 30, 40, 400]) {
      await test.clock.advance(days * DAY);
      gone.push(await run(options, now));
    }
    // Both of key_x, then the withdrawal of key_1, then its deposit; those of key_y never.
    expect(gone).toEqual([0, 2, 1, 1, 0]);
    expect(await left(test)).toBe(2);
    expect((await test.storage.range("event:key_y:")).length).toBe(2);
  });

  it("deletes an event as soon as its time has come, to the millisecond", async () => {
    await using test = await testPath();
    await test.publish();
    const { run } = test.parts.retention;
    await test.clock.advance(DAY - 1);
    expect(await run({ deliveredAfterMs: DAY }, now)).toBe(0);
    await test.clock.advance(1);
    expect(await run({ deliveredAfterMs: DAY }, now)).toBe(1);
  });

  it("reads what it has to keep once, and not in each run", async () => {
    await using test = await testPath({ retry: { attempts: 1 } });
    await test.deliver(replied(500));
    await test.clock.advance(2 * DAY);
    const { range } = test.storage;
    let read = 0;
    test.storage.range = async (prefix, options) => {
      const page = await range(prefix, options);
      if (prefix.startsWith("event:")) read += page.length;
      return page;
    };
    const counts: number[] = [];
    for (let runs = 0; runs < 3; runs++) {
      expect(await test.parts.retention.run({ deliveredAfterMs: DAY }, now)).toBe(0);
      counts.push(read);
    }
    expect(counts).toEqual([1, 1, 1]);
  });

  it("deletes many events together, in as few reads and commits as their size allows", async () => {
    await using test = await testPath();
    const data = "x".repeat(1_000);
    for (let n = 0; n < 1_200; n++) await test.publish("deposit:paid", { data });
    await test.clock.advance(2 * DAY);
    const { range, commit } = test.storage;
    const did = { reads: 0, commits: 0 };
    test.storage.range = (prefix, options) => {
      if (prefix.startsWith("event:")) did.reads++;
      return range(prefix, options);
    };
    test.storage.commit = (changes) => {
      did.commits++;
      return commit(changes);
    };
    const work = test.parts.retention.run({ deliveredAfterMs: DAY }, now);
    expect(await work).toBe(1_200);
    expect(did.reads).toBeLessThanOrEqual(5);
    expect(did.commits).toBeLessThanOrEqual(6);
  });

  it("looks again at everything when a key gets a rule of its own", async () => {
    await using test = await testPath();
    await test.publish();
    await test.clock.advance(10 * DAY);
    const { run } = test.parts.retention;
    expect(await run({ deliveredAfterMs: 30 * DAY }, now)).toBe(0);
    expect(await run({ deliveredAfterMs: 30 * DAY, keys: { key_1: { deliveredAfterMs: 7 * DAY } } }, now)).toBe(1);
  });

  it("holds for events with very many deliveries too, and for failed ones", async () => {
    await using test = await testPath({ fanout: { perEvent: 4, few: 2, page: 3 }, retry: { attempts: 1 } });
    for (let n = 0; n < 6; n++) await test.subscribe();
    test.otherwise = replied(500);
    await test.start();
    await test.publish();
    await test.whenSent(6);
    await test.clock.advance(3 * DAY);
    const { run } = test.parts.retention;
    expect(await run({ types: { "deposit:*": { deliveredAfterMs: DAY } } }, now)).toBe(0);
    expect(await run({ types: { "deposit:*": { failedAfterMs: DAY } } }, now)).toBe(1);
    expect(await test.storage.range("delivery:")).toEqual([]);
  });

  it("leaves no attempts of a delivery that was replayed very often", async () => {
    await using test = await testPath();
    const id = await test.subscribe();
    await test.start();
    const event = await test.publish();
    await test.whenSent(1);
    await test.clock.advance(0);
    await test.parts.replay.event("key_1", event, { force: true });
    await test.clock.advance(100);
    expect(test.sent).toHaveLength(2);
    const [first] = await test.storage.range("attempts:");
    const ordinal = first?.key.split(":")[2] ?? "";
    const cycles = Array.from({ length: 1_200 }, (_, i) => ATTEMPTS.key({ subscriptionId: id, ordinal, cycle: i + 1 }));
    await test.storage.commit(cycles.map((key) => ({ op: "put", key, value: "[]" })));
    await test.clock.advance(3 * DAY);
    expect(await test.parts.retention.run({ deliveredAfterMs: DAY }, now)).toBe(1);
    expect(await test.storage.range("attempts:")).toEqual([]);
  });
});
