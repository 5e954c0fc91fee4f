import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readDelivery } from "../../core/records/delivery-view.ts";
import { createRecipients } from "../../core/records/recipients.ts";
import { createSubscriptionCache } from "../../core/records/subscription-cache.ts";
import { createAttemptHistory } from "../../core/history/attempts.ts";
import { createHistory } from "../../core/history/events.ts";
import type { HistoryPage } from "../../core/history/history.ts";
import type { Delivery } from "../../core/model/delivery.ts";
import { deliveryBody } from "../../core/model/event.ts";
import type { RelayEvent } from "../../core/model/event.ts";
import { ordinalFloor } from "../../core/model/ids.ts";
import { ATTEMPTS, DELIVERY, DUE, EVENT, SUBSCRIPTION } from "../../core/model/schema.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { testClock } from "../support/clock.ts";
import { subscription } from "../support/intake.ts";
import { shelf } from "../support/shelf.ts";

const NOW = testClock().now();
const sub = subscription("a", { generation: 3 });

const ordinal = (at: number, n: number): string => ordinalFloor(at).slice(0, 20) + String(n).padStart(6, "0");
function eventAt(at: number, n: number, subs: readonly string[] = [sub.id], type = "deposit:paid"): RelayEvent {
  const place = ordinal(at, n);
  const id = `evt_${place}`;
  return {
    id,
    type,
    keyId: "key_1",
    ordinal: place,
    createdAt: at,
    acceptedAt: at,
    subscriptionIds: subs,
    body: deliveryBody(id, type, "key_1", at, "null"),
  };
}
const deliveryOf = (event: RelayEvent, over: Partial<Delivery> = {}): Delivery => ({
  keyId: "key_1",
  eventId: event.id,
  ordinal: event.ordinal,
  subscriptionId: sub.id,
  status: "delivered",
  cycle: 0,
  generation: 3,
  attempts: [{ cycle: 0, number: 1, startedAt: event.acceptedAt, durationMs: 5, statusCode: 200 }],
  updatedAt: event.acceptedAt + 5,
  ...over,
});

describe("a delivery reads", () => {
  const event = eventAt(NOW, 1);
  const line = { subscriptionId: sub.id, keyId: "key_1", ordinal: event.ordinal, dueAt: NOW, cycle: 0, attempts: 0 };
  const pending = deliveryOf(event, { status: "pending", nextAttemptAt: NOW + 5 });

  it("as pending from the very acceptance on, without a record", () => {
    expect(readDelivery(undefined, event, sub, { ...line, generation: 3 }, sub.id)).toMatchObject({
      status: "pending",
      cycle: 0,
      attempts: [],
      nextAttemptAt: NOW,
    });
  });

  it("as cancelled once its subscription is deleted or was never there", () => {
    for (const gone of [undefined, { ...sub, deletedAt: NOW + 9, updatedAt: NOW + 9 }]) {
      const read = readDelivery(pending, event, gone, undefined, sub.id);
      expect(read).toMatchObject({ status: "cancelled", reason: "subscription_deleted" });
      expect(read).not.toHaveProperty("nextAttemptAt");
    }
  });

  it("as failed once its subscription is disabled, also when it is active again", () => {
    for (const now of [
      { ...sub, status: "disabled" as const, generation: 4 },
      { ...sub, generation: 4 },
    ]) {
      for (const record of [pending, undefined]) {
        const read = readDelivery(record, event, now, { ...line, generation: 3 }, sub.id);
        expect(read).toMatchObject({ status: "failed", reason: "subscription_disabled" });
      }
    }
  });

  it("as it ended, whatever became of its subscription", () => {
    for (const status of ["delivered", "failed", "cancelled"] as const) {
      const record = deliveryOf(event, { status });
      expect(readDelivery(record, event, undefined, undefined, sub.id)).toEqual(record);
    }
  });
});

function room() {
  const store = shelf();
  store.rows.set(SUBSCRIPTION.key({ keyId: "key_1", id: sub.id }), JSON.stringify(sub));
  const storage = Object.assign(store, { watch: () => () => {} }) as unknown as Storage;
  const recipients = createRecipients(storage);
  const deps = { storage, recipients, subscriptionCache: createSubscriptionCache(storage), clock: testClock() };
  return { store, history: createHistory(deps), attempts: createAttemptHistory(deps) };
}

type Store = ReturnType<typeof room>["store"];
function keep(store: Store, event: RelayEvent, delivery?: Delivery): void {
  store.rows.set(EVENT.key(event), EVENT.write(event));
  if (delivery !== undefined) store.rows.set(DELIVERY.key(delivery), DELIVERY.write(delivery));
}

/** Counts the rows that are read in ranges. */
function counted(store: Store): () => number {
  let read = 0;
  const { range } = store;
  store.range = async (...args) => {
    const rows = await range(...args);
    read += rows.length;
    return rows;
  };
  return () => read;
}

async function walk<Item>(page: (after: string | undefined) => Promise<HistoryPage<Item>>): Promise<readonly Item[]> {
  const all: Item[] = [];
  let after: string | undefined;
  for (let pages = 0; ; pages++) {
    const { items, next } = await page(after);
    all.push(...items);
    if (next === undefined) return all;
    if (next === after || pages > 1_000) throw new Error("a page leads nowhere");
    after = next;
  }
}

/** How far a delivery has come when the list is read. */
const stage = fc.constantFrom("untried", "delivered", "failed", "retrying", "moved");
const deliveries = fc.array(fc.record({ at: fc.integer({ min: 0, max: 40 }), stage }), { maxLength: 60 });

function fill(store: Store, made: readonly { readonly at: number; readonly stage: string }[]): void {
  for (const [n, { at, stage: how }] of made.entries()) {
    const event = eventAt(NOW - 100 + at, n);
    keep(store, event);
    const due = { subscriptionId: sub.id, keyId: "key_1", ordinal: event.ordinal, generation: 3, cycle: 0 };
    const record = (over: Partial<Delivery>): void => keep(store, event, deliveryOf(event, over));
    const line = (dueAt: number, attempts: number): void =>
      void store.rows.set(DUE.key({ ...due, dueAt }), DUE.write({ ...due, dueAt, attempts }));
    if (how === "untried") line(event.acceptedAt, 0);
    else if (how === "retrying") {
      record({ status: "pending", nextAttemptAt: NOW + n });
      line(n % 2 === 0 ? NOW + n : event.acceptedAt + 7, 1);
    } else if (how === "moved") {
      record({ status: "pending", attempts: [], nextAttemptAt: event.acceptedAt + 11 });
      line(event.acceptedAt + 11, 0);
    } else record({ status: how as "delivered" });
  }
}

describe("a list", () => {
  it("of a subscription's deliveries holds each once, newest first, however the pages fall", async () => {
    await fc.assert(
      fc.asyncProperty(deliveries, fc.integer({ min: 1, max: 7 }), async (made, limit) => {
        const { store, history } = room();
        fill(store, made);
        const all = await walk((after) => history.deliveries(sub, undefined, { after, limit }));
        const seen = all.map(({ delivery }) => delivery.ordinal);
        expect(seen).toHaveLength(made.length);
        expect(seen).toEqual(seen.toSorted().toReversed());
        const pending = await walk((after) => history.deliveries(sub, "pending", { after, limit }));
        const isPending = (how: string) => how !== "delivered" && how !== "failed";
        expect(pending).toHaveLength(made.filter((one) => isPending(one.stage)).length);
      }),
      { numRuns: 60 },
    );
  });

  it("of a subscription's deliveries holds those that were accepted before the clock was set back, too", async () => {
    const { store, history } = room();
    const later = [0, 3_600_000, 3_600_100].flatMap((at) => [
      { at, stage: "untried" },
      { at, stage: "retrying" },
      { at, stage: "delivered" },
    ]);
    fill(store, later);
    for (const limit of [1, 2, 200]) {
      const all = await walk((after) => history.deliveries(sub, undefined, { after, limit }));
      const seen = all.map(({ delivery }) => delivery.ordinal);
      expect(seen).toHaveLength(later.length);
      expect(seen).toEqual(seen.toSorted().toReversed());
      expect(await walk((after) => history.deliveries(sub, "pending", { after, limit }))).toHaveLength(6);
    }
  });

  it("of events holds each once, newest first, and tells the state of each", async () => {
    await fc.assert(
      fc.asyncProperty(deliveries, fc.integer({ min: 1, max: 7 }), async (made, limit) => {
        const { store, history } = room();
        fill(store, made);
        const all = await walk((after) => history.events("key_1", {}, { after, limit }));
        const seen = all.map(({ event }) => event.ordinal);
        expect(seen).toHaveLength(made.length);
        expect(seen).toEqual(seen.toSorted().toReversed());
        const failed = await walk((after) => history.events("key_1", { status: "failed" }, { after, limit }));
        expect(failed).toHaveLength(made.filter((one) => one.stage === "failed").length);
      }),
      { numRuns: 40 },
    );
  });

  it("reads a bounded number of rows a page, and goes on from there", async () => {
    const { store, history } = room();
    for (let n = 0; n < 4_500; n++) {
      const event = eventAt(NOW - 5_000 + n, n, [], n === 3 ? "rare" : "common");
      keep(store, event);
    }
    const read = counted(store);
    const first = await history.events("key_1", { type: "rare" }, { limit: 10 });
    expect([first.items.length, first.next === undefined, read() <= 2_000]).toEqual([0, false, true]);
    const found = await walk((after) => history.events("key_1", { type: "rare" }, { after, limit: 10 }));
    expect(found).toHaveLength(1);
  });

  it("reads a bounded number of rows a page of deliveries, too, however few of them are wanted", async () => {
    const { store, history } = room();
    fill(
      store,
      Array.from({ length: 4_500 }, (_, n) => ({ at: 0, stage: n === 3 ? "failed" : "delivered" })),
    );
    const read = counted(store);
    const first = await history.deliveries(sub, "failed", { limit: 10 });
    expect([first.items.length, first.next === undefined, read() <= 2_200]).toEqual([0, false, true]);
    expect(await walk((after) => history.deliveries(sub, "failed", { after, limit: 10 }))).toHaveLength(1);
  });

  it("gets past thousands of lines that wait for a retry", async () => {
    const { store, history } = room();
    fill(
      store,
      Array.from({ length: 2_500 }, (_, n) => ({ at: n % 40, stage: n === 0 ? "untried" : "retrying" })),
    );
    const all = await walk((after) => history.deliveries(sub, undefined, { after, limit: 200 }));
    expect(all).toHaveLength(2_500);
  });

  it("shows the attempts of the newest cycle, and pages through those of all cycles, newest first", async () => {
    const { store, history, attempts } = room();
    const event = eventAt(NOW, 1);
    const attempt = (cycle: number, number: number) => ({ cycle, number, startedAt: NOW, durationMs: 1 });
    keep(store, event);
    for (const cycle of [0, 1, 10])
      store.rows.set(
        ATTEMPTS.key({ subscriptionId: sub.id, ordinal: event.ordinal, cycle }),
        ATTEMPTS.write(deliveryOf(event, { cycle, attempts: [attempt(cycle, 1), attempt(cycle, 2)] })),
      );
    const record = deliveryOf(event, { cycle: 11, attempts: [attempt(11, 1)] });
    keep(store, event, record);
    const named = (list: readonly { readonly cycle: number; readonly number: number }[] = []) =>
      list.map(({ cycle, number }) => `${cycle}.${number}`);
    const shown = await history.event("key_1", event.id);
    expect(named(shown?.deliveries[0]?.attempts)).toEqual(["11.1"]);
    const all = ["11.1", "10.2", "10.1", "1.2", "1.1", "0.2", "0.1"];
    for (const limit of [1, 2, 3, 7, 50]) {
      const found: string[] = [];
      for (let before: number | undefined; ;) {
        const page = await attempts.page("key_1", event.id, sub.id, { before, limit });
        found.push(...named(page?.attempts));
        // Whole cycles, of two at most here.
        expect(page?.attempts.length).toBeLessThanOrEqual(limit + 1);
        if (page?.next === undefined) break;
        before = page.next;
      }
      expect(found).toEqual(all);
    }
    expect(await attempts.page("key_1", event.id, "sub_other", { before: undefined, limit: 5 })).toBeUndefined();
    expect(await attempts.page("key_2", event.id, sub.id, { before: undefined, limit: 5 })).toBeUndefined();
  });

  it("leaves out the attempts of a cycle whose record is damaged, and pages through the others", async () => {
    const { store, attempts } = room();
    const event = eventAt(NOW, 1);
    const attempt = (cycle: number) => ({ cycle, number: 1, startedAt: NOW, durationMs: 1 });
    keep(store, event);
    const text = (cycle: number): string => ATTEMPTS.write(deliveryOf(event, { cycle, attempts: [attempt(cycle)] }));
    for (const cycle of [0, 1, 2, 3, 4])
      store.rows.set(ATTEMPTS.key({ subscriptionId: sub.id, ordinal: event.ordinal, cycle }), text(cycle));
    // A changed digit, garbage, and what is another cycle's.
    store.rows.set(
      ATTEMPTS.key({ subscriptionId: sub.id, ordinal: event.ordinal, cycle: 1 }),
      text(1).replace('"durationMs":1', '"durationMs":7'),
    );
    store.rows.set(ATTEMPTS.key({ subscriptionId: sub.id, ordinal: event.ordinal, cycle: 2 }), "\u0000");
    store.rows.set(ATTEMPTS.key({ subscriptionId: sub.id, ordinal: event.ordinal, cycle: 3 }), text(0));
    const record = deliveryOf(event, { cycle: 5, attempts: [attempt(5)] });
    keep(store, event, record);
    for (const limit of [1, 2, 50]) {
      const found: number[] = [];
      for (let before: number | undefined; ;) {
        const page = await attempts.page("key_1", event.id, sub.id, { before, limit });
        found.push(...(page?.attempts ?? []).map(({ cycle }) => cycle));
        if (page?.next === undefined) break;
        before = page.next;
      }
      expect(found).toEqual([5, 4, 0]);
    }
  });

  it("is not confused by a first attempt that ends while it reads", async () => {
    const { store, history } = room();
    const event = eventAt(NOW, 1);
    keep(store, event);
    const { getMany } = store;
    let calls = 0;
    store.getMany = async (keys) => {
      const found = await getMany(keys);
      if (calls++ === 0) keep(store, event, deliveryOf(event));
      return found;
    };
    expect((await history.event("key_1", event.id))?.deliveries[0]?.delivery.status).toBe("delivered");
  });
});
