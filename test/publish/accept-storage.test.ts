import { afterAll, describe, expect, it } from "vitest";
import type { Due } from "../../core/model/delivery.ts";
import { createSubscriptionCache } from "../../core/subscriptions/subscriptions.ts";
import { createPublisher } from "../../core/publish/accept.ts";
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import { testClock } from "../support/clock.ts";
import { paid, publish, subscription } from "../support/intake.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { refusal } from "../support/refusal.ts";
import { everyStorage } from "../support/storages.ts";

const STORAGES = everyStorage().filter(({ name }) => !/redis|unstorage/.test(name));

describe.each(STORAGES)("intake on $name", ({ open, close }) => {
  afterAll(close);

  /** A storage with two subscriptions, and as many publishers as are asked for. */
  async function house() {
    const clock = testClock();
    const { storage } = await open(clock);
    const a = subscription("01h00000000000000000000001");
    const off = subscription("01h00000000000000000000002", { status: "disabled" });
    for (const sub of [a, off])
      await storage.commit([{ op: "put", key: SUBSCRIPTION.key(sub), value: JSON.stringify(sub) }]);
    const subscriptionCache = createSubscriptionCache(storage);
    const handOver = { offer: (_: unknown, dues: readonly Due[]) => storage.queue.add(dues) };
    const deps = {
      storage,
      handOver,
      subscriptionCache,
      clock,
      maxPending: 0,
      log: quietLog(),
      metrics: quietMetrics(),
    };
    return {
      storage,
      intake: () => createPublisher(deps),
      async [Symbol.asyncDispose]() {
        subscriptionCache[Symbol.dispose]();
        await storage.dispose();
      },
    };
  }
  const claim = { limit: 100, perSubscription: 100, busy: new Map() };

  it("makes deliveries that can be claimed at once, and keeps those of a disabled subscription as failed", async () => {
    await using made = await house();
    const accepted = await made.intake().accept(publish([paid(), paid()]));
    expect(accepted.map(({ deliveries }) => deliveries)).toEqual([2, 2]);
    const leases = await made.storage.queue.claim(claim);
    expect(leases.map(({ ordinal }) => `evt_${ordinal}`)).toEqual(accepted.map(({ id }) => id));
    expect(leases[0]).toMatchObject({ generation: 3, cycle: 0, attempts: 0 });
    expect(await made.storage.range("failed:")).toHaveLength(2);
    expect(await made.storage.range("delivery:")).toHaveLength(2);
  });

  it("stores an id once, however many publish it at once", async () => {
    await using made = await house();
    const nodes = [made.intake(), made.intake()];
    const works = Array.from({ length: 20 }, () =>
      nodes.map((node, i) => node.accept(publish([paid({ id: "same" }), paid({ id: `own-${i}` })]))),
    );
    const answers = (await Promise.all(works.flat())).flat();
    expect(
      answers
        .filter(({ duplicate }) => !duplicate)
        .map(({ id }) => id)
        .toSorted(),
    ).toEqual(["own-0", "own-1", "same"]);
    expect(await made.storage.range("event:")).toHaveLength(3);
    expect(await made.storage.range("due:")).toHaveLength(3);
    const other = made.intake().accept(publish([paid(), paid({ id: "same", data: "other" })]));
    expect((await refusal(other)).paths).toEqual(["[1].id"]);
    expect(await made.storage.range("event:")).toHaveLength(3);
  });

  it("uses an Idempotency-Key up once, however many race for it", async () => {
    await using made = await house();
    const idempotency = { scope: "s", key: "0".repeat(64), digest: "d" };
    const nodes = [made.intake(), made.intake()];
    const works = Array.from({ length: 10 }, () =>
      nodes.map((node) => node.accept(publish([paid(), paid()], { idempotency }))),
    );
    const answers = await Promise.all(works.flat());
    expect(new Set(answers.flat().map(({ id }) => id)).size).toBe(2);
    expect(answers.filter((answer) => answer.every(({ duplicate }) => !duplicate))).toHaveLength(1);
    expect(await made.storage.range("event:")).toHaveLength(2);
  });

  it("takes a full batch with many repeats in it", async () => {
    await using made = await house();
    const batch = (from: number) => publish(Array.from({ length: 1_000 }, (_, i) => paid({ id: `id:${from + i}` })));
    await made.intake().accept(batch(0));
    const again = await made.intake().accept(batch(500));
    expect(again.filter(({ duplicate }) => duplicate)).toHaveLength(500);
    expect(await made.storage.range("eventid:", { limit: 5_000 })).toHaveLength(1_500);
  });
});
