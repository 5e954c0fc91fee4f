// A damaged subscription gets nothing, is counted and named once, and stops nothing else: on every storage.
import { describe, expect, it } from "vitest";
import { verifyStorage } from "../../core/maintenance/verify-storage.ts";
import { problemOf } from "../../core/api/http/reply.ts";
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import type { Driver } from "unstorage";
import memoryDriver from "unstorage/drivers/memory";
import { unstorage } from "../../plugins/storage/unstorage.ts";
import { itemKey } from "../../plugins/storage/unstorage/items.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { PATIENCE, put, settled, stageOf, watching } from "../support/damage.ts";
import { testPath } from "../support/path.ts";
import { everyStorage } from "../support/storages.ts";

const ACTOR = { sub: "tester" };

const DAMAGES: readonly (readonly [string, (text: string) => string])[] = [
  ["has another letter in its URL", (text) => text.replace("receiver.example", "receiver.exbmple")],
  ["is not JSON", (text) => text.replace("{", "[")],
  ["has lost its name for the event names", (text) => text.replace('"events"', '"eventz"')],
  ["is null", () => "null"],
  ["is another one's", (text) => text.replace(/"id":"sub_./, '"id":"sub_~')],
  ["is empty", () => ""],
];

describe.each(everyStorage())("on $name", (any) => {
  const { missing } = any;
  const begin = stageOf(any);

  it.skipIf(missing).each(DAMAGES)("a record that %s stops no other", PATIENCE, async (_, damage) => {
    const { relay, storage } = await begin();
    const before = await relay();
    const bad = await before.subscribe();
    const good = await before.subscribe(["deposit:paid"], "key_1", "https://good.example/hook");
    const waiting = await before.publish();
    const key = SUBSCRIPTION.key({ keyId: "key_1", id: bad });
    const text = (await storage.getItem(key)) as string;
    await put(storage, key, damage(text));

    const { metrics, log, lines, count } = watching();
    const test = await relay({ metrics, log });
    const { subscriptionCache, subscriptions, history, replay } = test.parts;
    const later = [await test.publish(), await test.publish("other:type")];
    expect((await subscriptionCache.of("key_1")).map(({ id }) => id).toSorted()).toEqual([bad, good].toSorted());
    await test.start();
    await settled(test);
    // The others are sent as ever.
    expect(test.sent.map(({ url }) => url)).toEqual(["https://good.example/hook", "https://good.example/hook"]);
    // What it may have wanted is listed for it, as failed.
    const outline = await subscriptionCache.get("key_1", bad);
    expect(outline).toMatchObject({ id: bad, status: "disabled", disabledReason: "record_damaged" });
    const { items } = await history.deliveries(outline as NonNullable<typeof outline>, "failed", { limit: 200 });
    expect(items.map(({ delivery: { eventId, reason } }) => [eventId, reason]).toSorted()).toEqual(
      [waiting, ...later].map((id) => [id, "record_damaged"]).toSorted(),
    );
    // Once each.
    expect(count("records_damaged subscription")).toBe(1);
    expect(lines).toEqual([{ message: "a stored record is damaged", key }]);
    const { faults } = await verifyStorage(storage);
    expect(faults.map((fault) => fault.key)).toEqual([key]);
    // Nothing but its end can be made of it.
    const refused = await subscriptions.update("key_1", bad, { status: "active" }, ACTOR).catch(problemOf);
    expect(refused).toMatchObject({ code: "CONFLICT" });
    await expect(subscriptions.rotate("key_1", bad, 0, ACTOR)).rejects.toThrow("cannot be read");
    // Once it is as it was, a bulk replay sends what it wants, and only that.
    await put(storage, key, text);
    const whole = await subscriptionCache.get("key_1", bad);
    const replayed = await replay.failed({
      subscription: whole as NonNullable<typeof whole>,
      limit: 100,
      perSecond: 50,
    });
    expect(replayed).toMatchObject({ matched: 3, replayed: 2 });
    await settled(test);
    expect(test.sent).toHaveLength(4);
    // It can be deleted, and another takes its place.
    await put(storage, key, damage(text));
    await subscriptions.remove("key_1", bad, ACTOR);
    expect((await subscriptionCache.of("key_1")).map(({ id }) => id)).toEqual([good]);
    const next = await test.subscribe(["other:type"]);
    expect(await replay.event("key_1", later[1] as string, { subscriptionId: next })).toBe(1);
    await settled(test);
    expect(test.sent).toHaveLength(5);
    expect((await verifyStorage(storage)).faults).toEqual([]);
  });

  it.skipIf(missing)("an event for many fails for it, and the others get it", PATIENCE, async () => {
    const { relay, storage } = await begin();
    const before = await relay();
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) ids.push(await before.subscribe());
    const key = SUBSCRIPTION.key({ keyId: "key_1", id: ids[2] as string });
    await put(storage, key, "\u0000");
    const test = await relay({ fanout: { perEvent: 3 } });
    await test.publish();
    await test.start();
    await settled(test);
    expect(test.sent).toHaveLength(5);
    const sub = await test.subscription(ids[2] as string);
    const { items } = await test.parts.history.deliveries(sub, "failed", { limit: 9 });
    expect(items).toMatchObject([{ delivery: { reason: "record_damaged" } }]);
  });

  it.skipIf(missing)("a secret that cannot be opened is counted and named once", PATIENCE, async () => {
    const { relay, storage } = await begin();
    const before = await relay();
    const bad = await before.subscribe();
    await before.subscribe(["deposit:paid"], "key_1", "https://good.example/hook");
    const key = SUBSCRIPTION.key({ keyId: "key_1", id: bad });
    const text = (await storage.getItem(key)) as string;
    const whole = SUBSCRIPTION.orThrow(text, key);
    const secrets = whole.secrets.map((secret) => ({ ...secret, sealed: secret.sealed.replace(/[^A]/, "A") }));
    await put(storage, key, SUBSCRIPTION.write({ ...whole, secrets }));
    const { metrics, log, lines, count } = watching();
    const test = await relay({ metrics, log });
    const ids = [await test.publish(), await test.publish()];
    await test.start();
    await settled(test);
    expect(test.sent.map(({ url }) => url)).toEqual(["https://good.example/hook", "https://good.example/hook"]);
    expect(await test.status(ids[0] as string)).toBe("failed");
    expect(count("records_damaged subscription")).toBe(1);
    expect(lines.filter(({ message }) => message === "a stored record is damaged")).toEqual([
      { message: "a stored record is damaged", key },
    ]);
    // A rotation without overlap puts it right.
    await test.parts.subscriptions.rotate("key_1", bad, 0, ACTOR);
    expect(await test.parts.replay.event("key_1", ids[0] as string)).toBe(1);
    await settled(test);
    expect(test.sent).toHaveLength(3);
  });
});

describe("on unstorage(), whose items are torn", () => {
  /** Cuts the items of these keys to half, as a disk does that is full in the middle of a write. */
  async function tear(driver: Driver, keys: readonly string[]): Promise<void> {
    for (const name of (await driver.getKeys("", {})) as string[]) {
      if (!keys.includes(itemKey(name) ?? "")) continue;
      const text = (await driver.getItem(name, {})) as string;
      await driver.setItem?.(name, text.slice(0, text.length / 2), {});
    }
  }

  it("a subscription and a due line are met as damaged, and can be deleted", PATIENCE, async () => {
    const clock = testClock();
    const driver = memoryDriver();
    const open = () => unstorage(driver).setup(pluginContext(clock, "/nonexistent"));
    let storage = await open();
    const ids: string[] = [];
    {
      await using before = await testPath({ clock, storage });
      for (const url of ["https://bad.example/", "https://good.example/", "https://due.example/"])
        ids.push(await before.subscribe(["*"], "key_1", url));
      await before.publish();
    }
    const [bad, good, due] = ids as [string, string, string];
    const [line] = await storage.range(`due:${due}:`);
    const key = SUBSCRIPTION.key({ keyId: "key_1", id: bad });
    await tear(driver, [key, line?.key ?? ""]);
    storage = await open();
    const { metrics, log, count } = watching();
    await using test = await testPath({ clock, storage, metrics, log });
    await test.start();
    const later = await test.publish();
    await settled(test);
    expect(test.sent.map(({ url }) => url).toSorted()).toEqual([
      "https://due.example/",
      "https://good.example/",
      "https://good.example/",
    ]);
    expect(await test.status(later)).toBe("failed");
    expect(count("records_damaged subscription")).toBe(1);
    expect(count("records_damaged due")).toBe(1);
    await test.parts.subscriptions.remove("key_1", bad, ACTOR);
    expect((await test.parts.subscriptionCache.of("key_1")).map(({ id }) => id).toSorted()).toEqual(
      [due, good].toSorted(),
    );
    expect(await storage.status()).toMatchObject({ unreadable: 0 });
    expect((await verifyStorage(storage)).faults).toEqual([]);
  });
});
