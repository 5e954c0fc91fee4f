// The timed request sequences of the vectors, one test each, with the exact answers.
import { describe, expect, it } from "vitest";
import { Limiter } from "../../core/limits/limiter.ts";
import type { LimitVerdict } from "../../core/limits/limiter.ts";
import { createCounters } from "../../plugins/storage/embedded/counters.ts";
import { ABUSE } from "../../config/defaults.ts";
import { testClock } from "../support/clock.ts";
import { LIMITS_BEGIN, limitSequences } from "../support/vectors.ts";

describe("the limiter's vectors", () => {
  for (const vector of limitSequences) {
    it(`${vector.id}: ${vector.name}`, async () => {
      const t0 = LIMITS_BEGIN * 1_000;
      const clock = testClock(t0);
      const row = { perMinute: vector.config.sustained.limit, per5s: vector.config.burst.limit };
      const limiter = new Limiter({ counters: createCounters(clock), rows: { "GET /x": row }, abuse: ABUSE, clock });
      for (const { t_ms, backpressure_ms, expect: wanted } of vector.requests) {
        await clock.advance(t0 + t_ms - clock.now());
        const verdict = (await limiter.check("GET /x", "tenant-a", { busyMs: backpressure_ms ?? 0 })) as LimitVerdict;
        const { status, code, ...headers } = wanted;
        const seen = Object.fromEntries(Object.keys(headers).map((name) => [name, Number(verdict.headers[name])]));
        expect({ t_ms, status: verdict.code === undefined ? 200 : 429, code: verdict.code ?? null, ...seen }).toEqual({
          t_ms,
          status,
          code,
          ...headers,
        });
      }
    });
  }
});
