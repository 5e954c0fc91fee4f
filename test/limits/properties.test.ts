// The limiter keeps its promises to every client, however it asks: tried by random walks.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Limiter, type LimitVerdict } from "../../core/limits/limiter.ts";
import type { AbuseOptions } from "../../core/ports/plan.ts";
import { createCounters } from "../../plugins/storage/embedded/counters.ts";

/** Milliseconds that only the test moves; no sleeper, so nothing to wait for. */
function handClock() {
  let at = 0;
  return {
    now: () => 1_800_000_000_000 + Math.floor(at),
    monotonic: () => at,
    sleep: () => Promise.resolve(),
    move(ms: number) {
      at += ms;
    },
  };
}

const rows = fc.constantFrom(
  { perMinute: 6, per5s: 2 },
  { perMinute: 10, per5s: 3 },
  { perMinute: 15, per5s: 3 },
  { perMinute: 60, per5s: 10 },
  { perMinute: 2, per5s: 5 },
  { perMinute: 1, per5s: 1 },
);
const abuses = fc.constantFrom<false | AbuseOptions>(false, { factor: 5, windowMs: 60_000, failures: 10, failuresWindowMs: 600_000, suspendMs: 300_000, maxSuspendMs: 3_600_000, forgetMs: 86_400_000 }); // prettier-ignore
/** Mostly hasty, sometimes patient, now and then at the very edges of the windows. */
const pauses = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 400 }) },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 20_000 }) },
    { weight: 1, arbitrary: fc.constantFrom(4_999, 5_000, 5_001, 59_999, 60_000, 60_001) },
    { weight: 1, arbitrary: fc.double({ min: 0, max: 10, noNaN: true }) },
  ),
  { minLength: 1, maxLength: 150 },
);

function setUp(row: { perMinute: number; per5s: number }, abuse: Parameters<Limiter["configure"]>[1]) {
  const clock = handClock();
  const limiter = new Limiter({ counters: createCounters(clock), rows: { "GET /x": row }, abuse, clock });
  const ask = (): LimitVerdict => limiter.check("GET /x", "a") as LimitVerdict;
  return { clock, ask };
}
const left = ({ headers }: LimitVerdict): number =>
  Math.min(Number(headers["X-RateLimit-Remaining"]), Number(headers["X-Burst-Remaining"]));

describe("for every client", () => {
  it("waiting Retry-After always works", () => {
    fc.assert(
      fc.property(rows, abuses, pauses, (row, abuse, walk) => {
        const { clock, ask } = setUp(row, abuse);
        for (const pause of walk) {
          clock.move(pause);
          const verdict = ask();
          if (verdict.code === undefined) continue;
          expect(verdict.retryAfter).toBeGreaterThanOrEqual(1);
          expect(verdict.headers["Retry-After"]).toBe(String(verdict.retryAfter));
          if (pause % 3 === 0) {
            clock.move((verdict.retryAfter as number) * 1_000);
            expect(ask().code).toBeUndefined();
          }
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("what Remaining says of the next request holds", () => {
    fc.assert(
      fc.property(rows, pauses, (row, walk) => {
        const { clock, ask } = setUp(row, false);
        let before: LimitVerdict | undefined;
        for (const pause of walk) {
          const verdict = ask();
          if (before !== undefined) expect(verdict.code === undefined).toBe(left(before) > 0);
          before = verdict;
          if (pause > 200) {
            clock.move(pause);
            before = undefined;
          }
        }
      }),
      { numRuns: 10_000 },
    );
  });

  it("never more than 2N−1 pass in a rolling window", () => {
    fc.assert(
      fc.property(rows, pauses, (row, walk) => {
        const { clock, ask } = setUp(row, false);
        const passed: number[] = [];
        for (const pause of walk) {
          clock.move(pause);
          if (ask().code === undefined) passed.push(clock.monotonic());
        }
        for (const [limit, windowMs] of [
          [row.perMinute, 60_000],
          [row.per5s, 5_000],
        ] as const) {
          for (const [i, at] of passed.entries()) {
            const within = passed.slice(i).filter((later) => later < at + windowMs).length;
            expect(within).toBeLessThanOrEqual(2 * limit - 1);
          }
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("refused requests consume nothing: who also asks in vain passes as often as who only asks in time", () => {
    fc.assert(
      fc.property(rows, pauses, (row, walk) => {
        const [hasty, calm] = [setUp(row, false), setUp(row, false)];
        for (const pause of walk) {
          hasty.clock.move(pause);
          calm.clock.move(pause);
          const verdict = hasty.ask();
          if (verdict.code === undefined) {
            const other = calm.ask();
            expect(other.code).toBeUndefined();
            expect(other.headers).toEqual(verdict.headers);
          }
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it("a slot that is given back leaves everything as if nobody had asked", async () => {
    await fc.assert(
      fc.asyncProperty(rows, pauses, async (row, walk) => {
        const [ours, calm] = [setUp(row, false), setUp(row, false)];
        for (const [i, pause] of walk.slice(0, 60).entries()) {
          ours.clock.move(pause);
          calm.clock.move(pause);
          // Every third answer is a fault of ours.
          const verdict = ours.ask();
          if (i % 3 === 2) await verdict.giveBack();
          else expect(calm.ask().headers).toEqual(verdict.headers);
        }
      }),
      { numRuns: 500 },
    );
  });
});
