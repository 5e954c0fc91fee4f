// A delivery goes straight from its acceptance to its receiver if nobody waits before it, else in line.
import { describe, expect, it } from "vitest";
import { createDispatcher } from "../../core/deliver/dispatcher.ts";
import { createEventCache } from "../../core/deliver/event-cache.ts";
import { createHandOver } from "../../core/deliver/hand-over.ts";
import type { Deliver } from "../../core/deliver/run.ts";
import { Slots, type Slot } from "../../core/deliver/slots.ts";
import type { Due } from "../../core/model/delivery.ts";
import type { RelayEvent } from "../../core/model/event.ts";
import { fanoutQueue } from "../../core/model/schema.ts";
import type { Lease, Queue } from "../../core/ports/storage.ts";
import { testClock, turn } from "../support/clock.ts";
import { quietLog } from "../support/quiet.ts";

const due = (ordinal: string, subscriptionId = "sub_a"): Due => ({
  ...{ subscriptionId, keyId: "key_1", ordinal, dueAt: 0 },
  ...{ generation: 1, cycle: 0, attempts: 0, waitMs: 0 },
});

const event = (ordinal: string, subscriptionIds: readonly string[] = ["sub_a"]): RelayEvent => ({
  ...{ id: `evt_${ordinal}`, type: "deposit:paid", keyId: "key_1", ordinal, createdAt: 0, acceptedAt: 0 },
  ...{ subscriptionIds, body: `{"n":"${ordinal}"}` },
});

/** A queue that lends while nothing waits in it, and slots that are taken at once while `free` says so. */
function opened(
  given: { readonly free?: () => boolean; readonly ms?: () => number; start?: boolean; lends?: boolean } = {},
) {
  const { free = () => true, ms = () => 0, start = true, lends = true } = given;
  const clock = { ...testClock(), monotonic: ms };
  const line: string[] = [];
  const reads: string[] = [];
  const calls = { claims: 0 };
  const answers: (() => void)[] = [];
  const begun: string[] = [];
  const ended: string[] = [];
  const bodies: string[] = [];
  const queue = {
    add: (dues: readonly Due[]) => void line.push(...dues.map(({ ordinal }) => ordinal)),
    ...(lends && {
      lend: (one: Due): Lease | undefined => (line.length > 0 ? undefined : { ...one, token: one.ordinal }),
      empty: () => line.length === 0,
    }),
    claim: async () => (calls.claims++, []),
    wake: (signal: AbortSignal) =>
      new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true })),
    release: async ({ ordinal }: Lease) => void line.push(ordinal),
  } as unknown as Queue;
  const deliver: Deliver = async ({ ordinal }, slot, signal, _, handed) => {
    signal.throwIfAborted();
    begun.push(ordinal);
    bodies.push(Buffer.from(handed?.body ?? []).toString());
    await new Promise<void>((resolve) => {
      answers.push(resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    ended.push(ordinal);
    slot.give();
  };
  const storage = { getItem: async (key: string) => (reads.push(key), undefined) };
  const eventCache = createEventCache(storage);
  const handOver = createHandOver({ queue, eventCache });
  const own = new Slots({ total: 8, perSubscription: 8, clock, lift: () => {} });
  const tryTake = (to: Lease): Slot | undefined => {
    const slot = free() ? own.admit(to) : 0;
    return typeof slot === "number" ? undefined : slot;
  };
  const dispatcher = createDispatcher({
    ...{ queue, slots: Object.assign(own, { tryTake }), perSubscription: 8, deliver, handOver, clock, log: quietLog() },
  });
  if (start) dispatcher.start();
  return { handOver, dispatcher, eventCache, line, reads, calls, answers, begun, ended, bodies };
}

describe("a delivery whose event was just accepted", () => {
  it("begins in the same turn, with its event in hand, without a claim", async () => {
    const test = opened();
    await turn();
    const { claims } = test.calls;
    test.handOver.offer([event("1")], [due("1")]);
    expect([test.begun, test.bodies]).toEqual([["1"], ['{"n":"1"}']]);
    test.answers[0]?.();
    await turn();
    await turn();
    expect({ ended: test.ended, line: test.line, claims: test.calls.claims }).toEqual({
      ended: ["1"],
      line: [],
      claims,
    });
    expect(test.dispatcher.underWay()).toBe(0);
    await test.dispatcher.stop(0);
  });

  it("goes in line before the dispatcher has started, where the queue lends nothing, and once it stops", async () => {
    for (const test of [opened({ start: false }), opened({ lends: false })]) {
      test.handOver.offer([event("1")], [due("1")]);
      expect([test.begun, test.line]).toEqual([[], ["1"]]);
      await test.dispatcher.stop(0);
    }
    const test = opened();
    const stopped = test.dispatcher.stop(0);
    test.handOver.offer([event("1")], [due("1")]);
    expect([test.begun, test.line]).toEqual([[], ["1"]]);
    await stopped;
  });

  it("passes nobody: once one of a batch is in line, those behind it are too", async () => {
    let slots = 1;
    const test = opened({ free: () => slots-- > 0 });
    const ordinals = ["1", "2", "3"];
    test.handOver.offer(
      ordinals.map((one) => event(one)),
      ordinals.map((one) => due(one)),
    );
    slots = 8;
    test.handOver.offer([event("4")], [due("4")]);
    expect([test.begun, test.line]).toEqual([["1"], ["2", "3", "4"]]);
    // What went in line is not read back from storage.
    for (const one of ["2", "3", "4"]) await test.eventCache.load("key_1", one);
    expect(test.reads).toEqual([]);
    await test.dispatcher.stop(0);
  });

  it("leaves its event in the cache for those of its deliveries that wait", async () => {
    let slots = 1;
    const test = opened({ free: () => slots-- > 0 });
    test.handOver.offer([event("1", ["sub_a", "sub_b"])], [due("1"), due("1", "sub_b")]);
    await test.eventCache.load("key_1", "1");
    expect([test.begun, test.line, test.reads]).toEqual([["1"], ["1"], []]);
    await test.dispatcher.stop(0);
  });

  it("begins in a later turn when this one has begun deliveries for a millisecond", async () => {
    let ms = 0;
    const test = opened({ ms: () => (ms += 0.6) });
    const ordinals = ["1", "2", "3"];
    test.handOver.offer(
      ordinals.map((one) => event(one)),
      ordinals.map((one) => due(one)),
    );
    expect(test.begun.length).toBeLessThan(3);
    expect(test.dispatcher.underWay()).toBe(3);
    while (test.begun.length < 3) await turn();
    expect(test.begun).toEqual(ordinals);
    await test.dispatcher.stop(0);
  });

  it("goes back unsent when its subscription is aborted before its turn", async () => {
    let ms = 0;
    const test = opened({ ms: () => (ms += 2) });
    test.handOver.offer([event("1"), event("2")], [due("1"), due("2")]);
    expect(test.begun).toEqual(["1"]);
    await test.dispatcher.abort("sub_a");
    expect([test.begun, test.line, test.dispatcher.underWay()]).toEqual([["1"], ["2"], 0]);
    await test.dispatcher.stop(0);
  });

  it("is waited for by a stop, and aborted after its grace", async () => {
    const test = opened();
    test.handOver.offer([event("1")], [due("1")]);
    await test.dispatcher.stop(0);
    expect([test.ended, test.dispatcher.underWay()]).toEqual([["1"], 0]);
  });

  it("goes in line when it is a fan-out still to be written", async () => {
    const test = opened();
    const wide = { snapshot: "s", count: 300 };
    test.handOver.offer([{ ...event("1", []), wide }], [due("1", fanoutQueue("key_1"))]);
    expect([test.begun, test.line]).toEqual([[], ["1"]]);
    await test.dispatcher.stop(0);
  });
});
