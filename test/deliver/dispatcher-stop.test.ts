import { describe, expect, it } from "vitest";
import type { Slot } from "../../core/deliver/slots.ts";
import { UnderWay } from "../../core/deliver/under-way.ts";
import { testClock, turn } from "../support/clock.ts";
import { replied, testPath, type Answer } from "../support/path.ts";
import { quietLog } from "../support/quiet.ts";

/** A receiver that never answers: only the relay can end the request. */
function hanging(): { readonly answer: Answer; readonly aborted: () => number } {
  let aborted = 0;
  return {
    answer: (_, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => {
          aborted++;
          reject(signal.reason as Error);
        });
      }),
    aborted: () => aborted,
  };
}

describe("a relay that stops", () => {
  it("aborts what is still in flight when its time is over, and gives it back uncounted", async () => {
    await using test = await testPath();
    const { answer, aborted } = hanging();
    test.otherwise = answer;
    await test.open();
    const eventId = await test.publish();
    await test.whenSent(1);

    let stopped = false;
    const stop = test.parts.dispatcher.stop(1_000);
    void stop.then(() => (stopped = true));
    // The claiming loop ends first, in a few turns of the event loop.
    for (let i = 0; i < 5; i++) await turn();
    await test.clock.advance(999);
    expect({ stopped, aborted: aborted() }).toEqual({ stopped: false, aborted: 0 });
    await test.clock.advance(1);
    await turn();

    expect({ stopped, aborted: aborted(), underWay: test.parts.dispatcher.underWay() }).toEqual({
      stopped: true,
      aborted: 1,
      underWay: 0,
    });
    const { leased, waiting } = await test.storage.queue.depth();
    expect({ leased, waiting }).toEqual({ leased: 0, waiting: 1 });
    const found = await test.parts.history.event("key_1", eventId);
    expect(found?.deliveries.map(({ delivery, attempts }) => ({ status: delivery.status, attempts }))).toEqual([
      { status: "pending", attempts: [] },
    ]);
  });

  it("ends also when it is asked to while it claims, and finds nothing", async () => {
    await using test = await testPath();
    const [asked, found] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { queue } = test.storage;
    queue.empty = () => false;
    queue.claim = async () => {
      asked.resolve();
      await found.promise;
      return [];
    };
    await test.start();
    await asked.promise;
    let stopped = false;
    void test.parts.dispatcher.stop(0).then(() => (stopped = true));
    found.resolve();
    for (let i = 0; i < 5; i++) await turn();
    expect(stopped).toBe(true);
  });

  it("waits for what began of a subscription after earlier deliveries of it were aborted", async () => {
    const ends: (() => void)[] = [];
    const underWay = new UnderWay(
      {
        queue: { hold: async () => {}, release: async () => {}, renewal: undefined },
        deliver: () => new Promise((end) => void ends.push(end)),
        clock: testClock(),
        log: quietLog(),
      },
      new AbortController().signal,
    );
    const begin = async (ordinal: string): Promise<void> => {
      const due = { subscriptionId: "sub_a", keyId: "k", ordinal, dueAt: 0, generation: 1, cycle: 0, attempts: 0 };
      underWay.take({ ...due, token: ordinal }, {} as Slot);
      underWay.begin();
      await turn();
    };
    await begin("1");
    const aborted = underWay.abort("sub_a");
    await begin("2");
    ends[0]?.();
    await aborted;
    let stopped = false;
    void underWay.abortAll().then(() => (stopped = true));
    await turn();
    expect(stopped).toBe(false);
    ends[1]?.();
    await turn();
    expect(stopped).toBe(true);
  });

  it("aborts nothing when what is in flight ends in time", async () => {
    await using test = await testPath();
    const answered = Promise.withResolvers<void>();
    let aborted = 0;
    test.otherwise = async (_, signal) => {
      const abort = (): void => void aborted++;
      signal.addEventListener("abort", abort);
      await answered.promise;
      signal.removeEventListener("abort", abort);
      return replied(200);
    };
    await test.open();
    const eventId = await test.publish();
    await test.whenSent(1);

    const stop = test.parts.dispatcher.stop(60_000);
    await turn();
    answered.resolve();
    await stop;
    expect({ aborted, status: await test.status(eventId) }).toEqual({ aborted: 0, status: "delivered" });
  });
});
