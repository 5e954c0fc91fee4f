// Events found by what became of their deliveries, in the indexes of failed and due lines.
import { describe, expect, it } from "vitest";
import { deliveryBody, type RelayEvent } from "../../core/model/event.ts";
import { ordinalFloor } from "../../core/model/ids.ts";
import { DELIVERY, DUE, EVENT, FAILED, FANOUT_LINES } from "../../core/model/schema.ts";
import type { EventFilter } from "../../core/history/history.ts";
import type { Change } from "../../core/ports/storage.ts";
import { putFailed } from "../../core/records/delivery-records.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";

const ACTOR = { sub: "tester" };
const KEY = "key_1";

/** Returns all that is found, page by page, by the ids of the events. */
async function found({ parts }: TestPath, filter: EventFilter, limit = 50): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let after: string | undefined; ;) {
    const page = await parts.history.events(KEY, filter, { ...(after !== undefined && { after }), limit });
    expect(page.items.length).toBeLessThanOrEqual(limit);
    ids.push(...page.items.map(({ event }) => event.id));
    if (page.next === undefined) return ids;
    after = page.next;
  }
}

/** Three endpoints: one takes all, one refuses all for good, one is tried again later. */
async function three(events: number): Promise<TestPath & { readonly subs: readonly string[]; readonly ids: string[] }> {
  const test = await testPath({ retry: { attempts: 2, firstDelayMs: 60_000 } });
  const subs = [await test.subscribe(), await test.subscribe(), await test.subscribe()];
  await test.parts.subscriptions.update(KEY, subs[1] as string, { retry: { attempts: 1 } }, ACTOR);
  test.otherwise = ({ subscriptionId }) => Promise.resolve(replied(subscriptionId === subs[0] ? 200 : 500));
  await test.start();
  const ids: string[] = [];
  for (let i = 0; i < events; i++) {
    ids.unshift(await test.publish("deposit:paid", { id: `ev:${i}` }));
    await test.clock.advance(5);
    await test.answered(3 * (i + 1));
  }
  return Object.assign(test, { subs, ids });
}

describe("a search by deliveries", () => {
  it("finds every event of which one has failed, one waits and one is delivered, newest first and in pages", async () => {
    await using test = await three(7);
    for (const delivery of ["failed", "pending", "delivered"] as const)
      for (const limit of [1, 3, 50]) expect(await found(test, { delivery }, limit)).toEqual(test.ids);
    // None of them has failed or is delivered as a whole.
    expect(await found(test, { status: "failed" })).toEqual([]);
  });

  it("means the delivery of the subscription that is named, and one whose attempts are as asked", async () => {
    await using test = await three(2);
    const [good, bad, later] = test.subs as [string, string, string];
    expect(await found(test, { delivery: "failed", subscriptionId: bad, statusCode: 500 })).toEqual(test.ids);
    expect(await found(test, { delivery: "failed", subscriptionId: good })).toEqual([]);
    expect(await found(test, { delivery: "pending", subscriptionId: later })).toEqual(test.ids);
    expect(await found(test, { delivery: "pending", subscriptionId: bad })).toEqual([]);
    expect(await found(test, { delivery: "failed", statusCode: 503 })).toEqual([]);
    expect(await found(test, { delivery: "delivered", statusCode: 500 })).toEqual([]);
    expect(await found(test, { delivery: "failed", id: "ev:1" })).toEqual(["ev:1"]);
  });

  it("takes the times of acceptance, and what was deleted", async () => {
    await using test = await three(3);
    const { event } = (await test.parts.history.events(KEY, { id: "ev:1" }, { limit: 1 })).items[0] as {
      event: RelayEvent;
    };
    expect(await found(test, { delivery: "failed", until: event.acceptedAt })).toEqual(["ev:0"]);
    expect(await found(test, { delivery: "failed", since: event.acceptedAt })).toEqual(["ev:2", "ev:1"]);
    await test.parts.subscriptions.remove(KEY, test.subs[1] as string, ACTOR);
    expect(await found(test, { delivery: "failed" })).toEqual(test.ids);
  });

  it("agrees with the list of a subscription from the moment on in which it is disabled", async () => {
    await using test = await three(3);
    const later = test.subs[2] as string;
    await test.parts.subscriptions.update(KEY, later, { status: "disabled" }, ACTOR);
    expect(await found(test, { delivery: "failed", subscriptionId: later })).toEqual(test.ids);
    expect(await found(test, { delivery: "pending" })).toEqual([]);
  });

  it("finds what a wide event still has to write, and what of it has failed", async () => {
    await using test = await testPath({ fanout: { perEvent: 4, few: 2, page: 2 }, retry: { attempts: 1 } });
    const subs: string[] = [];
    for (let i = 0; i < 6; i++) subs.push(await test.subscribe());
    const id = await test.publish();
    expect((await test.storage.range(FANOUT_LINES)).length).toBe(1);
    expect(await found(test, { delivery: "pending" })).toEqual([id]);
    expect(await found(test, { delivery: "failed" })).toEqual([]);
    test.otherwise = ({ subscriptionId }) => Promise.resolve(replied(subscriptionId === subs[5] ? 500 : 200));
    await test.start();
    await test.answered(6);
    expect(await found(test, { delivery: "pending" })).toEqual([]);
    expect(await found(test, { delivery: "failed" })).toEqual([id]);
    expect(await found(test, { delivery: "delivered" })).toEqual([id]);
  });

  it("counts the deliveries of each event in the list", async () => {
    await using test = await three(1);
    const { items } = await test.parts.history.events(KEY, {}, { limit: 1 });
    expect(items[0]?.deliveries?.map(({ status }) => status).toSorted()).toEqual(["delivered", "failed", "pending"]);
  });
});

/** Fills a key with events that one subscription took each, without sending them. */
async function fill(
  test: TestPath,
  subOf: (i: number) => string,
  count: number,
  failed: { has(i: number): boolean },
): Promise<void> {
  let changes: Change[] = [];
  for (let i = 0; i < count; i++) {
    const at = test.clock.now() - count + i;
    const ordinal = ordinalFloor(at);
    const [id, type, sub] = [`ev:${i}`, "deposit:paid", subOf(i)];
    const head = { id, type, keyId: KEY, ordinal, createdAt: at, acceptedAt: at };
    changes.push(EVENT.put(head, { ...head, subscriptionIds: [sub], body: deliveryBody(id, type, KEY, at, "1") }));
    const status = failed.has(i) ? "failed" : "delivered";
    const ended = { keyId: KEY, eventId: id, ordinal, subscriptionId: sub, status, cycle: 0, generation: 0 } as const;
    const one = { ...ended, attempts: [], updatedAt: at, ...(status === "failed" && { reason: "exhausted" as const }) };
    changes.push(DELIVERY.put(one, one), ...(status === "failed" ? [putFailed(one)] : []));
    if (changes.length < 5_000 && i < count - 1) continue;
    await test.storage.commit(changes);
    changes = [];
  }
}

it("a search of a hundred thousand events reads no more than it finds", async () => {
  await using test = await testPath();
  const sub = await test.subscribe();
  await fill(test, () => sub, 100_000, new Set([3, 50_000, 99_999]));
  let keys = 0;
  const { range, getMany } = test.storage;
  test.storage.range = async (prefix, options) => {
    const rows = await range(prefix, options);
    keys += rows.length;
    return rows;
  };
  test.storage.getMany = (wanted) => {
    keys += wanted.length;
    return getMany(wanted);
  };
  expect(await found(test, { delivery: "failed" })).toEqual(["ev:99999", "ev:50000", "ev:3"]);
  expect(keys).toBeLessThan(20);
  keys = 0;
  expect(await found(test, { delivery: "pending" })).toEqual([]);
  expect(keys).toBeLessThan(10);
  // An index that says too much costs the reading of those events, and shows none of them.
  const line = {
    subscriptionId: sub,
    keyId: KEY,
    ordinal: ordinalFloor(test.clock.now() - 10),
    generation: 0,
    cycle: 0,
  };
  await test.storage.commit([DUE.put({ ...line, dueAt: test.clock.now() - 10 }, { ...line, dueAt: 0, attempts: 0 })]);
  expect(await found(test, { delivery: "pending" })).toEqual([]);
  expect((await test.storage.range(FAILED.start)).length).toBe(3);
}, 60_000);

it("a search over many endpoints of which one fails the most reads on of that one alone", async () => {
  await using test = await testPath();
  const subs: string[] = [];
  for (let i = 0; i < 50; i++) subs.push(await test.subscribe());
  await fill(test, (i) => subs[i % 40 === 0 ? (i / 40) % 50 : 0] as string, 2_000, { has: () => true });
  let ranges = 0;
  const { range } = test.storage;
  test.storage.range = (prefix, options) => (ranges++, range(prefix, options));
  expect(await found(test, { delivery: "failed", type: "none" })).toEqual([]);
  expect(ranges).toBeLessThan(150);
  const newest = Array.from({ length: 2_000 }, (_, i) => `ev:${1_999 - i}`);
  expect(await found(test, { delivery: "failed" }, 99)).toEqual(newest);
});

it("a backlog that one answer cannot put in order is looked at event by event, and nothing is passed over", async () => {
  await using test = await testPath();
  const sub = await test.subscribe();
  const ids: string[] = [];
  for (let i = 0; i < 30; i++) {
    ids.unshift(await test.publish("deposit:paid", { id: `ev:${i}` }));
    await test.clock.advance(1);
  }
  // Lines of later times, which all stand before those of the events.
  const changes: Change[] = [];
  for (let i = 0; i < 21_000; i++) {
    const line = {
      subscriptionId: sub,
      keyId: KEY,
      ordinal: ordinalFloor(i + 1),
      generation: 0,
      cycle: 0,
      attempts: 1,
    };
    const dueAt = test.clock.now() + i + 1;
    changes.push(DUE.put({ ...line, dueAt }, { ...line, dueAt, waitMs: 1 }));
  }
  await test.storage.commit(changes);
  expect(await found(test, { delivery: "pending" }, 7)).toEqual(ids);
});
