// A connection of the config that is away pauses its subscriptions, and uses up none of their attempts.
import { describe, expect, it } from "vitest";
import type { Reply } from "../../core/ports/transport.ts";
import { Away } from "../../core/deliver/away.ts";
import { createGates } from "../../core/deliver/gates.ts";
import { testClock } from "../support/clock.ts";
import { replied, testPath } from "../support/path.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";

const AWAY: Reply = { kind: "unavailable", detail: "no connection" };
const HEALTH = { breakerAfter: 3, breakerPauseMs: 600_000, breakerMaxPauseMs: 600_000, disableAfterMs: 3_600_000 };

describe("a delivery whose bus is away", () => {
  it("is sent once the bus is back, with all its attempts and without a trace of the others", async () => {
    await using test = await testPath({ retry: { attempts: 1 }, health: HEALTH });
    test.otherwise = AWAY;
    await test.open();
    const id = await test.publish();
    await test.whenSent(1);
    await test.clock.advance(7_200_000);
    expect(await test.status(id)).toBe("pending");
    test.otherwise = replied(200);
    await test.clock.advance(11_000);
    expect(await test.status(id)).toBe("delivered");
    const found = await test.parts.history.event("key_1", id);
    expect(found?.deliveries[0]?.delivery.attempts).toMatchObject([{ number: 1, statusCode: 200 }]);
  });

  it("asks seldom while the bus stays away", async () => {
    await using test = await testPath();
    test.otherwise = AWAY;
    await test.open();
    for (let i = 0; i < 20; i++) await test.publish();
    await test.whenSent(1);
    await test.clock.advance(600_000);
    expect(test.sent.length).toBeGreaterThan(20);
    // At most what may be under way at once, each time that a pause ends.
    expect(test.sent.length).toBeLessThan(16 * 80);
  });

  it("keeps what it had used up before", async () => {
    await using test = await testPath({ retry: { attempts: 2, firstDelayMs: 1_000 } });
    test.answers = [replied(500), AWAY, AWAY, replied(500)];
    await test.open();
    const id = await test.publish();
    await test.whenSent(1);
    await test.clock.advance(60_000);
    expect(await test.status(id)).toBe("failed");
    expect(test.sent).toHaveLength(4);
  });

  it("carries the same message id in each attempt of a cycle", async () => {
    await using test = await testPath({ retry: { attempts: 2, firstDelayMs: 1_000 } });
    test.answers = [AWAY, replied(500), replied(200)];
    await test.open();
    await test.publish();
    await test.whenSent(1);
    await test.clock.advance(60_000);
    expect(new Set(test.sent.map(({ messageId }) => messageId)).size).toBe(1);
    expect(test.sent).toHaveLength(3);
    expect(test.sent[0]).toMatchObject({ keyId: "key_1", messageId: expect.stringMatching(/^dlv_.+_0$/) as string });
  });
});

describe("the pauses of a connection", () => {
  const opened = (transport: object, pausing: (id: string) => Promise<void> = async () => {}) => {
    const clock = testClock();
    const pauses: [string, number][] = [];
    const queue = {
      pause(id: string, ms: number): Promise<void> {
        pauses.push([id, ms]);
        return pausing(id);
      },
    };
    const one = {
      schemes: ["nats"],
      name: "bus",
      send: () => Promise.resolve(AWAY),
      dispose: async () => {},
      ...transport,
    };
    const gates = createGates(clock);
    const away = new Away({
      transportOf: () => one as never,
      gates,
      queue,
      clock,
      log: quietLog(),
      metrics: quietMetrics(),
    });
    return { away, admit: (id: string) => gates.admit(id, "0"), clock, pauses };
  };
  const sub = { id: "sub_1", url: "nats://bus/a" };

  it("end within a second of its return", async () => {
    let ready = false;
    const { away, admit, clock, pauses } = opened({ readiness: () => (ready ? undefined : "no connection") });
    for (let i = 0; i < 10; i++) {
      away.note(sub, "no connection");
      await clock.advance(10_000);
    }
    expect(away.note(sub, "no connection")).toBe(10_000);
    ready = true;
    await clock.advance(1_000);
    expect(pauses).toEqual([["sub_1", 0]]);
    expect(admit("sub_1")).toBeUndefined();
    await away.stop();
  });

  it("are ended many at a time, so that a thousand do not wait for a slow queue one after the other", async () => {
    let ready = false;
    const answers: (() => void)[] = [];
    const slow = (): Promise<void> => new Promise((resolve) => answers.push(resolve));
    const { away, clock, pauses } = opened({ readiness: () => (ready ? undefined : "no connection") }, slow);
    for (let i = 0; i < 1_000; i++) away.note({ ...sub, id: `sub_${i}` }, "no connection");
    await clock.advance(500);
    ready = true;
    await clock.advance(500);
    let rounds = 0;
    while (pauses.length < 1_000) {
      // What is asked for at once is bounded, too.
      expect(answers.length).toBeGreaterThan(0);
      expect(answers.length).toBeLessThanOrEqual(100);
      rounds++;
      for (const answer of answers.splice(0)) answer();
      await clock.advance(0);
    }
    expect(rounds).toBeLessThan(20);
    for (const answer of answers.splice(0)) answer();
    await away.stop();
  });

  it("are ended but for those that the queue refuses, which end by themselves", async () => {
    let ready = false;
    const refusing = async (id: string): Promise<void> => {
      if (id === "sub_2") throw new Error("the queue is away");
    };
    const { away, clock, pauses } = opened({ readiness: () => (ready ? undefined : "no connection") }, refusing);
    for (const id of ["sub_1", "sub_2", "sub_3"]) away.note({ ...sub, id }, "no connection");
    await clock.advance(500);
    ready = true;
    await clock.advance(500);
    expect(pauses.map(([id]) => id)).toEqual(["sub_1", "sub_2", "sub_3"]);
    await away.stop();
  });

  it("are not ended by a transport that never said that it was away", async () => {
    const { away, admit, clock, pauses } = opened({ readiness: () => undefined });
    const ms = away.note(sub, "no leader");
    await clock.advance(ms - 1);
    expect(pauses).toEqual([]);
    expect(admit("sub_1")).toBe(1);
    await clock.advance(1);
    expect(admit("sub_1")).toBeUndefined();
    await away.stop();
  });

  it("are short again after an absence of a transport that never said so, but not while attempts meet it", async () => {
    const { away, clock } = opened({});
    expect(away.note(sub, "no leader")).toBe(1_000);
    // The attempt that the end of the pause let through has taken this long.
    await clock.advance(1_400);
    expect(away.note(sub, "no leader")).toBe(1_400);
    await clock.advance(1_400 + 450);
    expect(away.note(sub, "no leader")).toBe(3_250);
    await clock.advance(60_000);
    expect(away.note(sub, "no leader")).toBe(1_000);
    await away.stop();
  });

  it("end after each absence, however soon the next one begins after the last", async () => {
    // The next one begins so many turns of the promise queue after the pauses of the last one were ended.
    for (let turns = 0; turns < 12; turns++) {
      let ready = false;
      let again = (): void => {};
      const ended = async (): Promise<void> => again();
      const { away, clock, pauses } = opened({ readiness: () => (ready ? undefined : "no connection") }, ended);
      const absent = (): void => {
        ready = false;
        away.note(sub, "no connection");
      };
      again = () => {
        again = () => {};
        let turn = Promise.resolve();
        for (let i = 0; i < turns; i++) turn = turn.then(() => {});
        void turn.then(absent);
      };
      absent();
      await clock.advance(500);
      ready = true;
      await clock.advance(500);
      ready = true;
      await clock.advance(1_000);
      expect(pauses, `${turns} turns after`).toEqual([
        ["sub_1", 0],
        ["sub_1", 0],
      ]);
      await away.stop();
    }
  });

  it("concern its own subscriptions alone, and a stop ends the watch", async () => {
    const { away, admit } = opened({});
    away.note(sub, "no connection");
    expect(admit("sub_2")).toBeUndefined();
    await away.stop();
  });
});
