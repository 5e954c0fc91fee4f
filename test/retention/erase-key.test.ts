// Erasing an API key: what goes, what stays, and that it goes on wherever it was cut off.
import { describe, expect, it } from "vitest";
import { eventOrdinal } from "../../core/model/ids.ts";
import { ATTEMPTS, DELIVERY, DUE, FAILED, PORTAL, STATS } from "../../core/model/schema.ts";
import type { Reply } from "../../core/ports/transport.ts";
import { turn } from "../support/clock.ts";
import { replied, testPath, type PathOptions, type TestPath } from "../support/path.ts";
import { eventually } from "../support/until.ts";
import { faults } from "../support/wide.ts";

const DAY = 86_400_000;
const ACTOR = { sub: "tester" };
const OTHER = "https://other.example/hook";

const rows = (test: TestPath) => test.storage.range("", { limit: 100_000 });
const erase = (test: TestPath, keyId = "key_1"): Promise<number> => test.parts.keyErasure.erase(keyId, ACTOR);
const done = (test: TestPath): Promise<void> =>
  eventually("the key is erased", async () => {
    await test.clock.advance(0);
    return (await test.storage.range("erasekey:")).length === 0 && (await test.storage.range("erasing:")).length === 0;
  });

/** Prefixes of what is left that names the key or one of these subscriptions. */
async function left(test: TestPath, names: readonly string[]): Promise<string[]> {
  const found = (await rows(test)).filter(({ key, value }) => names.some((name) => `${key} ${value}`.includes(name)));
  return [...new Set(found.map(({ key }) => key.slice(0, key.indexOf(":"))))].toSorted();
}

/** A key with everything that a key may have, some of it pending, waiting and held; and another key beside it. */
async function busy(options: PathOptions = {}): Promise<{ readonly test: TestPath; readonly subs: string[] }> {
  const test = await testPath({ fanout: { perEvent: 4, few: 2, page: 3 }, ...options });
  const subs = [await test.subscribe(["a", "wide"]), await test.subscribe(["b", "wide"])];
  const url = "https://receiver.example/hook";
  const given = { url, events: ["o"], ordered: true, onFailed: "hold" } as const;
  subs.push((await test.parts.subscriptions.create("key_1", given, ACTOR)).subscription.id);
  for (let n = 0; n < 5; n++) subs.push(await test.subscribe(["wide"]));
  await test.subscribe(["a"], "key_2", OTHER);
  await test.start();
  test.otherwise = async ({ url: to }) => replied(to === OTHER ? 200 : 500);
  for (let n = 0; n < 40; n++) await test.publish("a", { id: `own-${n}`, data: { name: "Alice" } });
  await test.publish("wide", { data: { name: "Alice" } });
  for (let n = 0; n < 3; n++) await test.publish("o", { data: { name: "Alice" } });
  await test.publish("a", { keyId: "key_2", data: { name: "Bob" } });
  await test.publish("nobody", { data: { name: "Alice" } });
  await test.clock.advance(2 * 3_600_000);
  await test.publish("b", { data: { name: "Alice" } });
  for (let n = 0; n < 3; n++) await test.publish("o", { data: { name: "Alice" } });
  await test.clock.advance(1_000);
  return { test, subs };
}

describe("erasing a key", () => {
  it("leaves its id, its audit and the names of its types, and nothing of any other key is touched", async () => {
    const { test, subs } = await busy();
    await using _ = test;
    const other = (await rows(test)).filter(({ key }) => key.includes("key_2"));
    await erase(test);
    await done(test);
    expect(await left(test, ["Alice"])).toEqual([]);
    expect(await left(test, ["key_1", ...subs])).toEqual(["audit", "eventid", "expiry", "key", "keytype"]);
    const kept = await test.storage.getMany(other.map(({ key }) => key));
    expect(kept).toEqual(other.map(({ value }) => value));
    const audit = (await test.storage.range("audit:key_1:", { reverse: true, limit: 100 })).map(
      ({ value }) => JSON.parse(value) as { action: string; by: string; detail?: string },
    );
    expect(audit.find(({ detail }) => detail === "done")).toMatchObject({ action: "key.erased", by: "relay" });
    expect(audit.filter(({ action }) => action === "subscription.deleted")).toHaveLength(subs.length);
    expect(audit.find(({ detail }) => detail === "begun")).toMatchObject({ action: "key.erased", by: "tester" });
    expect(await faults(test.storage)).toEqual([]);
    const sent = test.sent.length;
    await test.clock.advance(10 * DAY);
    expect(test.sent).toHaveLength(sent);
    expect(await test.storage.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
    // The ids are free again, and the rest follows when deleted subscriptions are forgotten.
    expect(await left(test, ["own-"])).toEqual([]);
  });

  it("leaves nothing of its events in the memory of a node", async () => {
    await using test = await testPath();
    for (let n = 0; n < 2; n++) await test.subscribe(["a"]);
    // What has several deliveries is kept for the others.
    const ordinal = eventOrdinal(await test.publish("a", { data: { name: "Alice" } })) ?? "";
    const { eventCache } = test.parts;
    expect((await eventCache.load("key_1", ordinal)).event.body).toContain("Alice");
    await erase(test);
    await done(test);
    await expect(async () => await eventCache.load("key_1", ordinal)).rejects.toThrow("is not there");
  });

  it("takes along what stands under its subscriptions, though no event names it any more", async () => {
    const { test, subs } = await busy();
    await using _ = test;
    const [id = ""] = subs;
    const ordinal = "01h00000000000000000000000";
    const line = DUE.key({ subscriptionId: id, dueAt: test.clock.now() + DAY, ordinal });
    const orphans = [
      ATTEMPTS.key({ subscriptionId: id, ordinal, cycle: 0 }),
      DELIVERY.key({ subscriptionId: id, ordinal }),
      FAILED.key({ subscriptionId: id, ordinal }),
      line,
    ];
    await test.storage.commit(orphans.map((key) => ({ op: "put", key, value: "orphan" })));
    await erase(test);
    await done(test);
    expect(await test.storage.getMany(orphans)).toEqual(orphans.map(() => undefined));
    expect(await left(test, subs)).toEqual(["audit", "expiry"]);
  });

  it("goes on after a crash at any of its commits", { timeout: 120_000 }, async () => {
    for (const at of [1, 2, 5, 9, 12, 30, 50, 55, 60, 65]) {
      const { test, subs } = await busy();
      await using _ = test;
      const { commit } = test.storage;
      let commits = 0;
      test.storage.commit = (changes) => (++commits > at ? Promise.reject(new Error("crashed")) : commit(changes));
      await erase(test);
      await eventually("it has crashed", () => Promise.resolve(commits > at));
      await test.parts.keyErasure.stop();
      await test.parts.eventErasure.stop();
      await test.parts.dispatcher.stop(0);
      test.storage.commit = commit;
      await using again = await testPath({ storage: test.storage, clock: test.clock });
      await again.start();
      again.parts.eventErasure.start();
      again.parts.keyErasure.start();
      await eventually("the key is erased", async () => {
        await test.clock.advance(5_000);
        const rest = await Promise.all(["erasekey:", "erasing:"].map((prefix) => test.storage.range(prefix)));
        return rest.flat().length === 0;
      });
      expect(await left(test, ["Alice"]), `after ${at}`).toEqual([]);
      expect(await left(test, ["key_1", ...subs])).toEqual(["audit", "eventid", "expiry", "key", "keytype"]);
      expect(await faults(test.storage)).toEqual([]);
    }
  });

  it("ends attempts under way, and what is made after the request is a new life of the key", async () => {
    await using test = await testPath();
    await test.subscribe();
    await test.start();
    let aborted = false;
    test.answers = [
      (_request, signal) =>
        new Promise<Reply>((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            aborted = true;
            reject(signal.reason as Error);
          });
        }),
    ];
    const old = await test.publish();
    await test.whenSent(1);
    const link = PORTAL.key({ keyId: "key_1" });
    const counts = [0, 60_000].map((ms) =>
      STATS.key({ keyId: "key_1", grain: "1m", at: test.clock.now() + ms, node: "n" }),
    );
    await test.storage.commit([link, ...counts].map((key) => ({ op: "put", key, value: "{}" })));
    await erase(test);
    // At once: nobody is let in by it any more.
    expect(await test.storage.getItem(link)).toBeUndefined();
    await erase(test);
    await done(test);
    expect(aborted).toBe(true);
    expect(await test.storage.getMany(counts)).toEqual([undefined, "{}"]);
    expect(await test.status(old)).toBeUndefined();
    await test.clock.advance(5);
    await test.subscribe();
    const fresh = await test.publish();
    await test.clock.advance(5);
    expect(await test.status(fresh)).toBe("delivered");
    expect(await faults(test.storage)).toEqual([]);
  });

  it("erases what was published before the clock was set back by an hour, and leaves what comes after", async () => {
    await using test = await testPath();
    await test.subscribe();
    await test.start();
    const old = await Promise.all(Array.from({ length: 70 }, () => test.publish()));
    await test.publish("nobody");
    await test.clock.advance(5);
    await test.clock.step(-3_600_000);
    await test.publish();
    await erase(test);
    await done(test);
    expect(await test.storage.range("event:key_1:")).toEqual([]);
    expect(await test.status(old[0] as string)).toBeUndefined();
    const fresh = await test.publish();
    expect((await test.storage.range("event:key_1:")).map(({ key }) => key)).toEqual([`event:key_1:${fresh.slice(4)}`]);
    expect(await faults(test.storage)).toEqual([]);
  });

  it("never takes the id of an event that a slow node stores while it ends", async () => {
    const { test } = await busy();
    await using _ = test;
    const { commit, range } = test.storage;
    const checked = Promise.withResolvers<void>();
    test.storage.commit = async (changes) => {
      if (changes.some(({ key }) => key === "eventid:key_1:own-late")) await checked.promise;
      return await commit.call(test.storage, changes);
    };
    const late = test.publish("late", { id: "own-late" });
    await turn();
    // A newer one, so that the late one is among those that are erased.
    await test.publish("late");
    test.storage.range = async (prefix, options) => {
      // The events were looked at for the last time; their ids are what is deleted next.
      if (prefix.startsWith("eventid:")) {
        checked.resolve();
        await late;
      }
      return await range.call(test.storage, prefix, options);
    };
    await erase(test);
    await done(test);
    expect(await test.storage.range("event:key_1:")).toEqual([]);
    expect(await faults(test.storage)).toEqual([]);
  });

  it("leaves no event of it in the memory from which deliveries are sent", async () => {
    await using test = await testPath();
    await test.subscribe();
    await test.subscribe();
    const ordinal = (await test.publish()).slice(4);
    expect(await test.parts.eventCache.load("key_1", ordinal)).toMatchObject({ event: { ordinal } });
    await erase(test);
    await done(test);
    await expect((async () => test.parts.eventCache.load("key_1", ordinal))()).rejects.toThrow("is not there");
  });

  it("deletes a subscription that was made before it on a node whose clock is ahead", async () => {
    await using test = await testPath();
    const id = await test.subscribe();
    await test.clock.step(-2_000);
    await erase(test);
    await done(test);
    expect(await test.storage.range(`subscription:key_1:${id}`)).toEqual([]);
  });
});
