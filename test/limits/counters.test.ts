// The embedded counters: the law of the port, what they forget when they are full, and suspensions that are put back.
import { describe, expect, it } from "vitest";
import type { WindowResult, Take } from "../../core/model/windows.ts";
import { createCounters } from "../../plugins/storage/embedded/counters.ts";
import { describeCounters } from "../conformance/counters.ts";
import { testClock } from "../support/clock.ts";

const clock = testClock();
let keys = 0;

describe("embedded counters keep the law", () => {
  describeCounters(it, {
    open: () => Promise.resolve(createCounters(clock)),
    advance: (ms) => clock.advance(ms),
    key: () => `key ${keys++}`,
  });
});

it("a law that cannot be tried is skipped with the reason, and never passes untried", () => {
  const harness = { open: () => Promise.resolve(createCounters(clock)), key: () => "key" };
  const registered = (more: { readonly advance?: () => void } = {}) => {
    const [run, skipped]: [string[], string[]] = [[], []];
    const it = Object.assign((name: string) => run.push(name), { skip: (name: string) => skipped.push(name) });
    describeCounters(it, { ...harness, ...more });
    return { run, skipped };
  };
  const [timed, untimed] = [registered({ advance: () => undefined }), registered()];
  expect(timed.skipped).toEqual([]);
  const reason = " (skipped: this store's clock cannot be moved by a test)";
  expect(untimed.skipped.map((name) => name.replace(reason, ""))).toEqual(
    timed.run.filter((name) => !untimed.run.includes(name)),
  );
  expect(untimed.skipped).toHaveLength(4);
});

const take = (key: string, perMinute = 5, per5s = 2): Take => ({
  key,
  sustained: { limit: perMinute, windowMs: 60_000 },
  burst: { limit: per5s, windowMs: 5_000 },
  abuse: { refusals: 3, windowMs: 60_000, suspendMs: 300_000, maxSuspendMs: 3_600_000, forgetMs: 86_400_000 },
});

function small(capacity: number) {
  const moving = testClock();
  const counters = createCounters(moving, { capacity });
  const ask = (key: string, perMinute?: number, per5s?: number): WindowResult =>
    (counters.take([take(key, perMinute, per5s)]) as readonly WindowResult[])[0] as WindowResult;
  return { clock: moving, counters, ask };
}

describe("counters that hold as many as they may", () => {
  it("forget first who is idle", async () => {
    const { clock, ask } = small(20);
    for (let i = 0; i < 10; i++) ask(`idle ${i}`);
    await clock.advance(60_000);
    for (let i = 0; i < 10; i++) ask(`busy ${i}`);
    for (let i = 0; i < 10; i++) ask(`new ${i}`);
    for (let i = 0; i < 10; i++) expect(ask(`busy ${i}`).sustained.remaining).toBe(3);
  });

  it("never forget who is full or suspended", async () => {
    const { ask } = small(20);
    for (let i = 0; i < 2; i++) ask("full");
    for (let i = 0; i < 5; i++) ask("suspended");
    for (let i = 0; i < 500; i++) ask(`passer-by ${i}`, 100, 100);
    expect(ask("full").code).toBe("BURST_EXCEEDED");
    expect(ask("suspended").code).toBe("ABUSE_SUSPEND");
  });

  it("let newcomers share one place when all are full, and nothing grows", () => {
    const { ask } = small(10);
    for (let i = 0; i < 10; i++) for (let n = 0; n < 2; n++) ask(`full ${i}`);
    expect([ask("a").code, ask("b").code, ask("c").code]).toEqual([undefined, undefined, "BURST_EXCEEDED"]);
    expect(ask("full 3").code).toBe("BURST_EXCEEDED");
  });

  it("do not search all of them for a newcomer, however many are full", () => {
    const { ask } = small(50_000);
    const timed = (count: number, name: string): number => {
      const startedAt = performance.now();
      for (let i = 0; i < count; i++) ask(`${name} ${i}`, 1, 1);
      return performance.now() - startedAt;
    };
    // A look at everything for each of them would take thousands of times as long as filling it did.
    const filling = timed(50_000, "full");
    expect(timed(20_000, "new")).toBeLessThan(filling * 20);
  });
});

it("those that share an entry for lack of room are refused, and never suspended for each other", () => {
  const shared = createCounters(testClock(), { capacity: 2 });
  const abuse = { refusals: 2, windowMs: 60_000, suspendMs: 300_000, maxSuspendMs: 300_000, forgetMs: 86_400_000 };
  const windows = { sustained: { limit: 1, windowMs: 60_000 }, burst: { limit: 1, windowMs: 5_000 } };
  const ask = (key: string) => (shared.take([{ key, ...windows, abuse }]) as readonly WindowResult[])[0]?.code;
  for (const key of ["a", "b"]) expect(ask(key)).toBeUndefined();
  const codes = ["c", "d", "e", "f", "g", "h"].map(ask);
  expect(codes).toEqual([undefined, ...Array<string>(5).fill("RATE_LIMIT_EXCEEDED")]);
});

describe("wall clocks that jump", () => {
  it("neither give quota back early nor lock anybody out", async () => {
    const { clock, ask } = small(10);
    for (let i = 0; i < 5; i++) {
      ask("a");
      await clock.advance(5_000);
    }
    await clock.step(86_400_000);
    expect(ask("a").code).toBe("RATE_LIMIT_EXCEEDED");
    await clock.step(-90_000_000);
    expect(ask("a").waitMs).toBe(35_000);
    await clock.advance(35_000);
    expect(ask("a").code).toBeUndefined();
  });
});

describe("a suspension that is put back", () => {
  it("lasts as long as was left of it, and the next one is longer", async () => {
    const { clock, counters, ask } = small(10);
    counters.restore?.("a", { strikes: 1, leftMs: 10_000, ageMs: 290_000 });
    expect(ask("a")).toMatchObject({ code: "ABUSE_SUSPEND", waitMs: 10_000 });
    await clock.advance(10_000);
    for (let i = 0; i < 4; i++) ask("a");
    expect(ask("a").suspended).toEqual({ strikes: 2, forMs: 600_000 });
  });
});
