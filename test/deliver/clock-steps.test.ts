// The wall clock of the machine is set forwards or back: nothing is lost, nothing hammers, nothing waits for the past to return.
import { describe, expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { replied, testPath } from "../support/path.ts";

const HOUR_MS = 3_600_000;

describe("a wall clock that is set back by an hour", () => {
  it("delays no event that is published after it", async () => {
    await using test = await testPath();
    await test.open();
    await test.publish();
    await test.whenSent(1);
    await test.clock.step(-HOUR_MS);
    const id = await test.publish();
    await test.clock.advance(2_000);
    expect(test.sent).toHaveLength(2);
    expect(await test.status(id)).toBe("delivered");
  });

  it("neither loses a retry nor makes it before its wait is over", async () => {
    await using test = await testPath({ delivery: { holdMs: 0 } });
    const id = await test.deliver(replied(500));
    await test.clock.step(-HOUR_MS);
    await test.clock.advance(4_000);
    expect(test.sent).toHaveLength(1);
    await test.clock.advance(HOUR_MS + 2_000);
    expect(test.sent).toHaveLength(2);
    expect(await test.status(id)).toBe("delivered");
  });
});

describe("a wall clock that is set back while a replay reads", () => {
  it("delays it by nothing", async () => {
    await using test = await testPath({ retry: { attempts: 1 } });
    test.answers = [replied(500)];
    await test.open();
    const id = await test.publish();
    await test.whenSent(1);
    await test.clock.advance(100);
    expect(await test.status(id)).toBe("failed");
    const { getItem } = test.storage;
    test.storage.getItem = async (key) => {
      if (key.startsWith("delivery:")) {
        test.storage.getItem = getItem;
        await test.clock.step(-HOUR_MS);
      }
      return getItem(key);
    };
    await test.parts.replay.event("key_1", id);
    await test.clock.advance(2_000);
    expect(await test.status(id)).toBe("delivered");
  });
});

describe("a wall clock that is set back during a rest", () => {
  const health = { breakerAfter: 1, breakerPauseMs: 60_000, breakerMaxPauseMs: 60_000, disableAfterMs: 432_000_000 };

  it.each([
    ["that a receiver has asked for", replied(503, { retryAfter: "60" }), false],
    ["of a breaker", replied(500), health],
  ] as const)("lengthens none %s", async (_whose, first, breaker) => {
    await using test = await testPath({ retry: { attempts: 1 }, health: breaker });
    await test.deliver(first);
    await test.clock.step(-HOUR_MS);
    const id = await test.publish();
    await test.clock.advance(59_000);
    expect(test.sent).toHaveLength(1);
    await test.clock.advance(2_000);
    expect(await test.status(id)).toBe("delivered");
  });
});

describe("a wall clock that is set back while a result is stored", () => {
  it("holds the retry no longer than anything is held", async () => {
    await using test = await testPath();
    test.answers = [replied(500)];
    const settle = test.storage.queue.settle.bind(test.storage.queue);
    test.storage.queue.settle = async (...args) => {
      test.storage.queue.settle = settle;
      await test.clock.step(-HOUR_MS);
      await settle(...args);
    };
    await test.open();
    await test.publish();
    await test.whenSent(1);
    await test.clock.advance(30_000);
    expect(test.sent).toHaveLength(2);
  });
});

describe("a wall clock that is set forwards by an hour", () => {
  it.each([30_000, 0])(
    "brings no retry forward, and makes none twice when the clock is set back (waits are held for %d ms)",
    async (holdMs) => {
      await using test = await testPath({ delivery: { holdMs } });
      test.otherwise = replied(500);
      await test.open();
      const ids = [await test.publish(), await test.publish()];
      await test.answered(2);
      await test.clock.step(HOUR_MS);
      await test.clock.advance(4_000);
      expect(test.sent).toHaveLength(2);
      await test.clock.advance(2_000);
      expect(test.sent).toHaveLength(4);
      test.otherwise = replied(200);
      await test.clock.step(-HOUR_MS);
      await test.clock.advance(2 * HOUR_MS);
      expect(test.sent).toHaveLength(6);
      for (const id of ids) expect(await test.status(id)).toBe("delivered");
    },
  );
});

describe("a wall clock that is set while a retry waits in the queue", () => {
  it.each([90_000, -90_000, HOUR_MS, -HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS])(
    "neither lengthens nor shortens its wait (%d ms)",
    async (ms) => {
      await using test = await testPath({ delivery: { holdMs: 0 } });
      const id = await test.deliver(replied(503, { retryAfter: "60" }));
      await test.clock.step(ms);
      await test.clock.advance(59_000);
      expect(test.sent).toHaveLength(1);
      await test.clock.advance(2_000);
      expect(await test.status(id)).toBe("delivered");
    },
  );
});

describe("the system clock", () => {
  it("ends no sleep before its time has passed, though the wall clock was set forwards meanwhile", async () => {
    const { now } = Date;
    try {
      const clock = systemClock();
      const from = performance.now();
      const slept = clock.sleep(clock.now() + 30);
      Date.now = () => now() + HOUR_MS;
      await slept;
      expect(performance.now() - from).toBeGreaterThanOrEqual(29);
    } finally {
      Date.now = now;
    }
  });

  it("ends a sleep when its time has passed, though the wall clock was set back meanwhile", async () => {
    const { now } = Date;
    try {
      const clock = systemClock();
      const slept = clock.sleep(clock.now() + 30);
      Date.now = () => now() - HOUR_MS;
      expect(
        await Promise.race([slept.then(() => "over"), new Promise((end) => setTimeout(end, 2_000, "asleep"))]),
      ).toBe("over");
    } finally {
      Date.now = now;
    }
  });
});
