import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { createDispatcher } from "../../core/deliver/dispatcher.ts";
import { Slots } from "../../core/deliver/slots.ts";
import { StorageError } from "../../core/model/errors.ts";
import type { Lease, Queue } from "../../core/ports/storage.ts";
import { testClock, turn } from "../support/clock.ts";
import { quietLog } from "../support/quiet.ts";

const lease = (ordinal: string): Lease => ({
  subscriptionId: "sub_a",
  keyId: "k",
  ordinal,
  dueAt: 0,
  generation: 1,
  cycle: 0,
  attempts: 0,
  token: ordinal,
});

describe("the dispatcher", () => {
  it("claims again when a slot was given back while a claim looked", async () => {
    const looking = Promise.withResolvers<readonly Lease[]>();
    const delivering = Promise.withResolvers<void>();
    const claims: (readonly Lease[] | Promise<readonly Lease[]>)[] = [[lease("1")], looking.promise, [lease("2")]];
    const never = (signal: AbortSignal): Promise<void> =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    const queue = { claim: async () => claims.shift() ?? [], wake: never } as unknown as Queue;
    const slots = new Slots({ total: 8, perSubscription: 1, clock: testClock(), lift: () => {} });
    const delivered: string[] = [];
    const dispatcher = createDispatcher({
      queue,
      slots,
      perSubscription: 1,
      clock: testClock(),
      log: quietLog(),
      async deliver({ ordinal }, slot) {
        if (ordinal === "1") await delivering.promise;
        delivered.push(ordinal);
        slot.give();
      },
    });
    dispatcher.start();
    await turn();
    delivering.resolve();
    await turn();
    // It looked while the subscription had enough under way, and found nothing to give.
    looking.resolve([]);
    await turn();
    expect(delivered).toEqual(["1", "2"]);
    await dispatcher.stop(0);
  });

  it("leaves nothing behind of its waits, however often it is woken", async () => {
    let wakeUp = (): void => {};
    const waits: AbortSignal[] = [];
    const wake = (signal: AbortSignal): Promise<void> => {
      waits.push(signal);
      return new Promise((resolve) => (wakeUp = resolve));
    };
    const claims: (readonly Lease[])[] = [[lease("1")]];
    let claiming: AbortSignal | undefined;
    const dispatcher = createDispatcher({
      queue: { claim: async () => claims.shift() ?? [], wake } as unknown as Queue,
      slots: new Slots({ total: 8, perSubscription: 1, clock: testClock(), lift: () => {} }),
      perSubscription: 1,
      clock: testClock(),
      log: quietLog(),
      async deliver(_, slot, _signal, stopping) {
        claiming = stopping;
        slot.give();
      },
    });
    const listeners = (): number => (claiming === undefined ? 0 : getEventListeners(claiming, "abort").length);
    dispatcher.start();
    while (claiming === undefined) await turn();
    await turn();
    const before = listeners();
    for (let times = 0; times < 30; times++) {
      wakeUp();
      await turn();
      await turn();
    }
    expect(waits.length).toBeGreaterThan(20);
    expect(waits.map(({ aborted }) => aborted)).toEqual(waits.map((_, i) => i < waits.length - 1));
    expect(listeners()).toBe(before);
    const stopped = dispatcher.stop(0);
    wakeUp();
    await stopped;
  });

  it("begins a claimed batch over several turns, and one that is aborted before its turn is given back unsent", async () => {
    let ms = 0;
    const released: string[] = [];
    const began: string[] = [];
    const claims: (readonly Lease[])[] = [
      [lease("1"), { ...lease("2"), subscriptionId: "sub_b" }, lease("3"), { ...lease("4"), subscriptionId: "sub_b" }],
    ];
    const queue = {
      claim: async () => claims.shift() ?? [],
      wake: (signal: AbortSignal) =>
        new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true })),
      release: async ({ ordinal }: Lease) => void released.push(ordinal),
    } as unknown as Queue;
    const between: (readonly string[])[] = [];
    let aborted: Promise<void> | undefined;
    const dispatcher = createDispatcher({
      queue,
      slots: new Slots({ total: 8, perSubscription: 4, clock: testClock(), lift: () => {} }),
      perSubscription: 4,
      // Each beginning takes longer than a turn may.
      clock: { ...testClock(), monotonic: () => ms },
      log: quietLog(),
      async deliver({ ordinal }, slot, signal) {
        signal.throwIfAborted();
        ms += 2;
        setImmediate(() => between.push([...began]));
        began.push(ordinal);
        if (ordinal === "1") aborted = dispatcher.abort("sub_b");
        slot.give();
      },
    });
    dispatcher.start();
    while (aborted === undefined) await turn();
    await aborted;
    await dispatcher.stop(0);
    expect({ began, released, underWay: dispatcher.underWay() }).toEqual({
      began: ["1", "3"],
      released: ["2", "4"],
      underWay: 0,
    });
    // Other work of the loop came between the first and the next.
    expect(between[0]).toEqual(["1"]);
  });

  it("gives back what the queue could not take as soon as it answers again", async () => {
    const clock = testClock();
    const claims: (readonly Lease[] | Error)[] = [[lease("1"), lease("2")], new Error("away"), []];
    const released: string[] = [];
    let away = true;
    const queue = {
      async claim() {
        const found = claims.shift() ?? [];
        if (found instanceof Error) throw found;
        return found;
      },
      wake: (signal: AbortSignal) =>
        new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true })),
      async release({ ordinal }: Lease) {
        if (away) throw new StorageError("unavailable", "away");
        released.push(ordinal);
      },
    } as unknown as Queue;
    const dispatcher = createDispatcher({
      queue,
      slots: new Slots({ total: 8, perSubscription: 4, clock, lift: () => {} }),
      perSubscription: 4,
      clock,
      log: quietLog(),
      async deliver(_, slot) {
        slot.give();
        throw new StorageError("unavailable", "away");
      },
    });
    dispatcher.start();
    for (let i = 0; i < 5; i++) await turn();
    expect({ released, underWay: dispatcher.underWay() }).toEqual({ released: [], underWay: 0 });
    away = false;
    await clock.advance(500);
    for (let i = 0; i < 5; i++) await turn();
    expect(released).toEqual(["1", "2"]);
    await dispatcher.stop(0);
  });
});
