import { EVENT } from "../../core/model/schema.ts";
import { describe, expect, it } from "vitest";
import type { Change } from "../../core/ports/storage.ts";
import { desk, paid, publish, subscription } from "../support/intake.ts";
import { SMALL } from "../support/wide.ts";

const many = (count: number) => Array.from({ length: count }, (_, i) => subscription(String(i).padStart(5, "0")));
const shelves = (changes: readonly Change[] | undefined): readonly string[] =>
  (changes ?? []).map(({ op, key }) => `${op} ${key.split(":")[0]}`);

describe("what an event is fanned out to", () => {
  it("is read again when a subscription is changed while its commit is prepared", async () => {
    const made = desk();
    made.subscriptions = [subscription("a")];
    const { getMany } = made.shelf;
    // The first event of a key and a type looks whether their names are known: a while in which another is created.
    made.shelf.getMany = async (keys) => {
      made.subscriptions = [subscription("a"), subscription("b")];
      made.shelf.getMany = getMany;
      return getMany(keys);
    };
    const [accepted] = await made.intake.accept(publish([paid()]));
    expect(accepted?.deliveries).toBe(2);
    expect(made.shelf.commits).toHaveLength(1);
    expect(made.shelf.added.map(({ subscriptionId }) => subscriptionId)).toEqual(["sub_a", "sub_b"]);
  });
});

describe("an event whose subscriptions are changed during each of its commits", () => {
  it.each([
    ["wide", 9],
    ["of a few", 3],
  ])("is stored with those it was accepted for: %s", async (_, count) => {
    const made = desk({ fanout: SMALL });
    made.subscriptions = many(count);
    let generation = 10;
    const change = (): void => {
      generation++;
      made.subscriptions = made.subscriptions.map((sub) => ({ ...sub, generation }));
    };
    made.shelf.before = (changes) => {
      if (!changes.some(({ key }) => key.startsWith("event:"))) change();
    };
    const { getMany } = made.shelf;
    made.shelf.getMany = async (keys) => {
      change();
      return await getMany(keys);
    };
    const [accepted] = await made.intake.accept(publish([paid()]));
    expect(accepted?.deliveries).toBe(count);
    const [event] = made.told;
    expect(event?.wide?.count ?? event?.subscriptionIds.length).toBe(count);
    expect([...made.shelf.rows.keys()].filter((key) => key.startsWith("event:"))).toHaveLength(1);
  });
});

describe("an event for more subscriptions than a commit holds", () => {
  it("costs the same commit for ten thousand as for three hundred: event, state and one line", async () => {
    for (const count of [300, 10_000]) {
      const made = desk();
      made.subscriptions = many(count);
      const [accepted] = await made.intake.accept(publish([paid()]));
      expect(accepted?.deliveries).toBe(count);
      await made.intake.accept(publish([paid()]));
      expect(shelves(made.shelf.commits.at(-1))).toEqual(["put event", "put fanout", "put due", "check snapshot"]);
      expect(made.shelf.added.at(-1)).toMatchObject({ subscriptionId: "fan_key_1", generation: count, attempts: 0 });
      const ordinal = accepted?.id.slice(4) as string;
      const { subscriptionIds, wide } = EVENT.orThrow(made.shelf.rows.get(`event:key_1:${ordinal}`) ?? "");
      expect([subscriptionIds, wide?.count]).toEqual([[], count]);
    }
  });

  it("writes its list of subscriptions before it, in commits that stay small, and not again for the next", async () => {
    const made = desk();
    made.subscriptions = many(10_000);
    await made.intake.accept(publish([paid()]));
    const before = made.shelf.commits.length;
    expect(Math.max(...made.shelf.commits.map((changes) => changes.length))).toBeLessThan(20);
    await made.intake.accept(publish([paid()]));
    expect(made.shelf.commits).toHaveLength(before + 1);
    // What does not change who gets it does not make another list.
    made.subscriptions = made.subscriptions.map((sub) => ({ ...sub, url: "https://elsewhere.example.com/" }));
    await made.intake.accept(publish([paid()]));
    expect(made.shelf.commits).toHaveLength(before + 2);
    made.subscriptions = [...made.subscriptions, subscription("99999")];
    await made.intake.accept(publish([paid()]));
    expect(made.shelf.commits.length).toBeGreaterThan(before + 3);
  });

  it("is not stored on a list that was removed, which is written again first", async () => {
    const made = desk({ fanout: SMALL });
    made.subscriptions = many(9);
    await made.intake.accept(publish([paid()]));
    const rows = [...made.shelf.rows.keys()].filter((key) => /^(?:snapshot|members):/.test(key));
    for (const key of rows) made.shelf.rows.delete(key);
    await made.intake.accept(publish([paid()]));
    expect([...made.shelf.rows.keys()].filter((key) => rows.includes(key)).toSorted()).toEqual(rows.toSorted());
    for (const key of rows.filter((one) => one.startsWith("snapshot:"))) made.shelf.rows.set(key, "closing gc_1");
    await made.intake.accept(publish([paid()]));
    expect(made.shelf.rows.get(rows.find((key) => key.startsWith("snapshot:")) as string)).toBe("live 9");
  });

  it("leaves no part of its list behind one that retention takes away meanwhile", async () => {
    const made = desk({ fanout: SMALL });
    made.subscriptions = many(9);
    const has = (prefix: string): boolean => [...made.shelf.rows.keys()].some((key) => key.startsWith(prefix));
    let [taken, orphans] = [false, false];
    made.shelf.before = (changes) => {
      if (taken || !shelves(changes).includes("put members")) return;
      taken = true;
      for (const key of made.shelf.rows.keys()) if (key.startsWith("snapshot:")) made.shelf.rows.delete(key);
    };
    made.shelf.after = () => void (orphans ||= has("members:") && !has("snapshot:"));
    await made.intake.accept(publish([paid()]));
    expect({ taken, orphans, live: has("snapshot:") }).toEqual({ taken: true, orphans: false, live: true });
  });

  it("is stored by two nodes at once that write the same list", async () => {
    const made = desk({ fanout: SMALL });
    made.subscriptions = many(30);
    const nodes = [made.intake, made.another(), made.another()];
    const answers = await Promise.all(nodes.map((node) => node.accept(publish([paid()]))));
    expect(answers.flat().map(({ deliveries }) => deliveries)).toEqual([30, 30, 30]);
    expect([...made.shelf.rows.keys()].filter((key) => key.startsWith("snapshot:"))).toHaveLength(1);
  });

  it("counts with all its deliveries against the limit of what is pending", async () => {
    const made = desk({ fanout: SMALL, maxPending: 20 });
    made.subscriptions = many(30);
    await made.intake.accept(publish([paid()]));
    await expect(made.intake.accept(publish([paid()]))).rejects.toMatchObject({ code: "PROVIDER_BACKPRESSURE" });
    // The queue knows of one line; the other deliveries are still to be written.
    made.shelf.depth = { waiting: 1, leased: 0 };
    await made.clock.advance(1_000);
    await expect(made.intake.accept(publish([paid()]))).rejects.toMatchObject({ code: "PROVIDER_BACKPRESSURE" });
  });

  it("counts with all its deliveries against the limit of its key", async () => {
    const made = desk({ fanout: SMALL, maxPendingPerKey: 20 });
    made.subscriptions = many(30);
    await made.intake.accept(publish([paid()]));
    await made.clock.advance(1_000);
    // Another process reads what is pending; the other deliveries are still to be written.
    await expect(made.another().accept(publish([paid()]))).rejects.toMatchObject({ code: "PROVIDER_BACKPRESSURE" });
  });

  it("has a list of its own again when it is one of the relay's, whose commit must not fail for that", async () => {
    const made = desk({ fanout: SMALL });
    const type = "relay:test";
    made.subscriptions = many(9).map((sub) => ({ ...sub, events: [type] }));
    for (let n = 0; n < 2; n++) {
      for (const key of made.shelf.rows.keys()) if (/^(?:snapshot|members):/.test(key)) made.shelf.rows.delete(key);
      const prepared = await made.intake.prepare({ keyId: "key_1", type, data: {} });
      await made.shelf.commit(prepared?.changes ?? []);
      expect(await made.shelf.range("snapshot:")).toMatchObject([{ value: "live 9" }]);
    }
  });

  it("is reported to subscriptions of operational events, however many there are", async () => {
    const made = desk({ fanout: SMALL });
    made.subscriptions = many(30).map((sub) => ({ ...sub, events: ["relay:subscription.disabled"] }));
    await made.operational.accept("key_1", "relay:subscription.disabled", {});
    expect(made.told).toMatchObject([{ type: "relay:subscription.disabled", wide: { count: 30 } }]);
  });
});
