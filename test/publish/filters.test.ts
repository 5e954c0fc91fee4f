// Filters decide at acceptance which subscriptions an event goes to.
import { EVENT } from "../../core/model/schema.ts";
import { describe, expect, it } from "vitest";
import { Fanouts, type Addressed } from "../../core/publish/fanout.ts";
import type { Filter } from "../../core/model/filter.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import { desk, paid, publish, subscription } from "../support/intake.ts";
import { testPath } from "../support/path.ts";
import * as wide from "../support/wide.ts";
import { testClock } from "../support/clock.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { testFolder } from "../support/folder.ts";
import { until } from "../support/until.ts";

const EUR: Filter = { path: "data.currency", equals: "EUR" };
const USD: Filter = { path: "data.currency", equals: "USD" };
const ACTOR = { sub: "tester" };
const paidIn = (currency: string) => paid({ data: { currency } });
const due = (made: ReturnType<typeof desk>): readonly string[] =>
  made.shelf.added.map(({ subscriptionId }) => subscriptionId);

describe("an accepted event", () => {
  it("goes to the subscriptions whose filters it matches, and to those without one", async () => {
    const made = desk();
    made.subscriptions = [
      subscription("eur", { filter: EUR }),
      subscription("usd", { filter: USD }),
      subscription("all"),
      subscription("off", { filter: USD, status: "disabled" }),
    ];
    const [accepted] = await made.intake.accept(publish([paidIn("EUR")]));
    expect(accepted?.deliveries).toBe(2);
    expect(due(made)).toEqual(["sub_eur", "sub_all"]);
    expect(made.told.at(-1)?.subscriptionIds).toEqual(["sub_eur", "sub_all"]);
    // Those that are left out have no record at all, not even a failed one.
    expect([...made.shelf.rows.keys()].filter((key) => key.includes("sub_off") || key.includes("sub_usd"))).toEqual([]);
  });

  it("has no deliveries when every filter excludes it, and is stored all the same", async () => {
    const made = desk();
    made.subscriptions = [subscription("eur", { filter: EUR }), subscription("usd", { filter: USD })];
    const [accepted] = await made.intake.accept(publish([paidIn("JPY")]));
    expect(accepted?.deliveries).toBe(0);
    const text = made.shelf.rows.get(`event:key_1:${accepted?.id.slice(4)}`);
    expect(EVENT.orThrow(text ?? "").subscriptionIds).toEqual([]);
    expect(made.shelf.added).toEqual([]);
  });

  it("is judged with the other events of its batch, each by its own data", async () => {
    const made = desk();
    made.subscriptions = [subscription("eur", { filter: EUR }), subscription("usd", { filter: USD })];
    const accepted = await made.intake.accept(
      publish([paidIn("EUR"), paidIn("JPY"), paidIn("USD"), paid({ type: "withdraw:paid" })]),
    );
    expect(accepted.map(({ deliveries }) => deliveries)).toEqual([1, 0, 1, 0]);
    expect(due(made)).toEqual(["sub_eur", "sub_usd"]);
  });

  it("is judged by the published text of its data", async () => {
    const made = desk();
    made.subscriptions = [
      subscription("a", { filter: { path: "data.a", equals: 2 } }),
      subscription("b", { filter: { path: ["data", "__proto__", "x"], equals: 1 } }),
    ];
    const text = '{"type":"deposit:paid","keyId":"key_1","data":{"a":1,"a":2.0,"__proto__":{"x":1}}}';
    expect((await made.intake.accept(publish([text])))[0]?.deliveries).toBe(2);
  });

  it("goes everywhere by a stored filter that this version cannot read", async () => {
    const made = desk();
    made.subscriptions = [subscription("a", { filter: { path: "data.a", near: "here" } as never })];
    expect((await made.intake.accept(publish([paid()])))[0]?.deliveries).toBe(1);
  });

  it("is judged again when a filter changes while its commit is prepared", async () => {
    const made = desk();
    made.subscriptions = [subscription("a", { filter: EUR })];
    const { getMany } = made.shelf;
    made.shelf.getMany = async (keys) => {
      made.subscriptions = [subscription("a", { filter: USD })];
      made.shelf.getMany = getMany;
      return getMany(keys);
    };
    const [accepted] = await made.intake.accept(publish([paidIn("EUR")]));
    expect(accepted?.deliveries).toBe(0);
    expect(made.shelf.commits).toHaveLength(1);
  });

  it("is not judged again when it is published again under its id", async () => {
    const made = desk();
    made.subscriptions = [subscription("a", { filter: EUR })];
    await made.intake.accept(publish([paid({ id: "order-1", data: { currency: "EUR" } })]));
    made.subscriptions = [subscription("a", { filter: USD })];
    const [again] = await made.intake.accept(publish([paid({ id: "order-1", data: { currency: "EUR" } })]));
    expect(again).toMatchObject({ deliveries: 1, duplicate: true });
  });

  it("counts each delivery that a filter left out", async () => {
    const made = desk();
    made.subscriptions = [subscription("a", { filter: EUR }), subscription("b", { filter: EUR }), subscription("c")];
    await made.intake.accept(publish([paidIn("EUR"), paidIn("USD"), paidIn("USD")]));
    expect(made.metrics.counted.get("filtered")).toBe(4);
  });
});

describe("an operational event", () => {
  it("is judged like others, and is not stored when no filter lets it through", async () => {
    const made = desk();
    const filter: Filter = { path: "data.reason", equals: "endpoint_gone" };
    made.subscriptions = [subscription("ops", { events: ["relay:subscription.disabled"], filter })];
    const type = "relay:subscription.disabled";
    expect(await made.operational.prepare("key_1", type, { reason: "endpoint_failing" })).toBeUndefined();
    expect(await made.operational.prepare("key_1", type, { reason: "endpoint_gone" })).toBeDefined();
  });
});

describe("a wide event", () => {
  it("has a snapshot of those whose filters it matches, shared by events with the same list", async () => {
    const made = desk({ fanout: wide.SMALL });
    const one = (i: number, filter: Filter | undefined) => subscription(String(i).padStart(3, "0"), { filter });
    made.subscriptions = Array.from({ length: 40 }, (_, i) => one(i, i % 2 === 0 ? EUR : undefined));
    const snapshots = () => [...made.shelf.rows.keys()].filter((key) => key.startsWith("snapshot:")).length;
    const deliveries = async (currency: string) =>
      (await made.intake.accept(publish([paidIn(currency)])))[0]?.deliveries;
    expect(await deliveries("EUR")).toBe(40);
    expect(await deliveries("USD")).toBe(20);
    expect(snapshots()).toBe(2);
    const before = made.shelf.commits.length;
    for (const currency of ["JPY", "USD", "EUR"]) await deliveries(currency);
    expect(snapshots()).toBe(2);
    expect(made.shelf.commits).toHaveLength(before + 3);
    expect(made.shelf.commits.at(-1)?.length).toBeLessThan(6);
  });

  it("is narrow when its filters leave few", async () => {
    const made = desk({ fanout: wide.SMALL });
    made.subscriptions = Array.from({ length: 40 }, (_, i) =>
      subscription(String(i), { filter: { path: "data.n", equals: i } }),
    );
    expect((await made.intake.accept(publish([paid({ data: { n: 7 } })])))[0]?.deliveries).toBe(1);
    expect(due(made)).toEqual(["sub_7"]);
  });

  it("reaches each that its filter includes once, and no other", async () => {
    const clock = testClock();
    const storage = await memory().setup(pluginContext(clock, testFolder()));
    await using test = await wide.widePath(clock, storage);
    const ids = await wide.subscribers(test, 23);
    const included = ids.filter((_, i) => i % 3 !== 0);
    for (const [i, id] of ids.entries())
      if (i % 3 < 2) await test.parts.subscriptions.update("key_1", id, { filter: i % 3 === 0 ? USD : EUR }, ACTOR);
    const id = await test.publish("deposit:paid", { data: { currency: "EUR" } });
    await test.start();
    await until(wide.ended(test, id));
    expect(test.sent.map(({ subscriptionId }) => subscriptionId).toSorted()).toEqual(included);
    expect(await wide.outcomes(test, id)).toEqual(wide.everyOne(included, "delivered"));
    expect(await wide.faults(storage)).toEqual([]);
  });
});

describe("what filters cost", () => {
  const addressed = (data: string): Addressed => ({ keyId: "key_1", type: "deposit:paid", data });
  const keyed = (list: readonly Subscription[]) => new Map([["key_1", list]]);

  it("is nothing where no subscription that wants the event has one: its data is not even parsed", async () => {
    const fanouts = new Fanouts();
    const list = [subscription("a"), subscription("b", { events: ["withdraw:paid"], filter: EUR })];
    // What cannot be parsed would throw.
    const event = addressed("not JSON");
    const found = fanouts.of([event], keyed(list));
    if (found instanceof Promise) throw new Error("it takes turns");
    expect(found(event).ids).toEqual(["sub_a"]);
    expect(found(event)).toBe(found(event));
  });

  it("is remembered for a hundred thousand ids in all, and found again beyond that", () => {
    const fanouts = new Fanouts();
    const list = Array.from({ length: 5_000 }, (_, i) => subscription(String(i), { events: ["*"] }));
    const find = (type: string) => {
      const event = { ...addressed("{}"), type };
      const found = fanouts.of([event], keyed(list));
      if (found instanceof Promise) throw new Error("it takes turns");
      return found(event);
    };
    const first = find("type:0");
    for (let n = 1; n <= 20; n++) find(`type:${n}`);
    expect(find("type:0")).toBe(first);
    find("type:21");
    expect(find("type:0")).not.toBe(first);
    expect(find("type:0")).toEqual(first);
  });

  it("is one parse for each event, however many subscriptions have filters", async () => {
    const fanouts = new Fanouts();
    const list = Array.from({ length: 50 }, (_, i) =>
      subscription(String(i), { filter: { path: "data.n", equals: i } }),
    );
    const { parse } = JSON;
    let parsed = 0;
    JSON.parse = (...args) => {
      parsed++;
      return parse(...args) as unknown;
    };
    try {
      const events = [addressed('{"n":1}'), addressed('{"n":2}')];
      const found = await fanouts.of(events, keyed(list));
      expect(events.map((event) => found(event).ids)).toEqual([["sub_1"], ["sub_2"]]);
    } finally {
      JSON.parse = parse;
    }
    expect(parsed).toBe(2);
  });

  it("reads a filter once, however many event types and changes of other subscriptions there are", async () => {
    let reads = 0;
    const counted: Filter = Object.defineProperty({ path: "data.n" }, "equals", {
      enumerable: true,
      get: () => (reads++, 1),
    });
    const one = subscription("one", { events: ["*"], filter: counted });
    const fanouts = new Fanouts();
    for (const list of [[one], [one, subscription("two")]])
      for (const type of ["a", "b", "c"]) await fanouts.of([{ ...addressed("{}"), type }], keyed(list));
    // Its text and its matcher.
    expect(reads).toBe(2);
  });

  it("is shared by subscriptions with the same filter, and leaves other work its turns", async () => {
    let turns = 0;
    const fanouts = new Fanouts(async () => void turns++);
    const names = Array.from({ length: 15 }, () => "d");
    const worst = (i: number): Filter => ({
      and: Array.from({ length: 40 }, () => ({ not: { path: ["data", ...names], equals: i } })),
    });
    const same = Array.from({ length: 1_000 }, (_, i) => subscription(String(i), { filter: worst(0) }));
    await fanouts.of([addressed("{}")], keyed(same));
    expect(turns).toBe(0);
    // A filter costs at most 681 steps or so; other work has its turn every 20,000.
    const different = Array.from({ length: 1_000 }, (_, i) => subscription(String(i), { filter: worst(i) }));
    await fanouts.of([addressed("{}")], keyed(different));
    expect(turns).toBeGreaterThan((1_000 * 600) / 25_000);
    // The first time they are compiled too, within the same slices.
    const first = turns;
    turns = 0;
    await fanouts.of([addressed("{}")], keyed(different));
    expect(first).toBeGreaterThan(2 * turns);
    // Large data counts too.
    turns = 0;
    const large = addressed(JSON.stringify({ text: "x".repeat(250_000) }));
    await fanouts.of(
      Array.from({ length: 32 }, () => ({ ...large })),
      keyed([subscription("a", { filter: EUR })]),
    );
    expect(turns).toBeGreaterThan(15);
  });
});

describe("a filter that changes", () => {
  it("decides for the events accepted from then on, and leaves earlier deliveries alone", async () => {
    await using test = await testPath();
    const id = await test.subscribe(["deposit:paid"]);
    const before = await test.publish("deposit:paid", { data: { currency: "USD" } });
    await test.parts.subscriptions.update("key_1", id, { filter: EUR }, ACTOR);
    const left = await test.publish("deposit:paid", { data: { currency: "USD" } });
    await test.parts.subscriptions.update("key_1", id, { filter: null }, ACTOR);
    const after = await test.publish("deposit:paid", { data: { currency: "USD" } });
    expect(await test.parts.subscriptionCache.get("key_1", id)).not.toHaveProperty("filter");
    expect([await test.status(before), await test.status(left), await test.status(after)]).toEqual([
      "pending",
      "unmatched",
      "pending",
    ]);
  });

  it("does not keep an operator from sending an event to the subscription by name", async () => {
    await using test = await testPath();
    const id = await test.subscribe(["deposit:paid"]);
    await test.parts.subscriptions.update("key_1", id, { filter: EUR }, ACTOR);
    const event = await test.publish("deposit:paid", { data: { currency: "USD" } });
    await expect(test.parts.replay.event("key_1", event)).rejects.toMatchObject({ code: "NOT_REPLAYABLE" });
    expect(await test.parts.replay.event("key_1", event, { subscriptionId: id })).toBe(1);
    expect(await test.status(event)).toBe("pending");
  });
});
