// Limits on /v1 under pressure: more callers than are remembered, suspensions that must not be slept off, two at once.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ABUSE } from "../../config/defaults.ts";
import { defaultRows } from "../../config/limits.ts";
import { callersIn } from "../../core/api/gateway/headers.ts";
import { Limiter } from "../../core/limits/limiter.ts";
import type { LimitVerdict } from "../../core/limits/limiter.ts";
import { createCounters } from "../../plugins/storage/embedded/counters.ts";
import type { Got } from "../support/ask.ts";
import { startBehind } from "../support/gateway.ts";
import type { TestGateway } from "../support/gateway.ts";

const PAY = "/v1/withdraw/create";
const pay = (gateway: TestGateway, key: string, address: string): Promise<Got> =>
  gateway.ask("POST", PAY, { "X-API-Key": key, "X-Forwarded-For": address });
const from = (i: number): string => `2001:db8:0:${i.toString(16)}::1`;

describe("more callers than are remembered", () => {
  it("push out neither who is suspended nor who is full", async () => {
    await using gateway = await startBehind({ abuse: ABUSE, capacity: 40, trustedProxies: ["127.0.0.1"] });
    for (let i = 0; i < 2; i++) expect((await pay(gateway, "pressing", from(1))).status).toBe(200);
    let last: Got | undefined;
    for (let i = 0; i < 30; i++) last = await pay(gateway, "pressing", from(1));
    expect([last?.json.code, last?.headers["retry-after"]]).toEqual(["ABUSE_SUSPEND", "300"]);
    for (let i = 0; i < 100; i++) await pay(gateway, `key-${i}`, from(100 + i));
    expect((await pay(gateway, "pressing", from(2))).json.code).toBe("ABUSE_SUSPEND");
    await gateway.clock.advance(299_000);
    for (let i = 0; i < 100; i++) await pay(gateway, `later-${i}`, from(300 + i));
    expect((await pay(gateway, "pressing", from(3))).headers["retry-after"]).toBe("1");
    await gateway.clock.advance(1_000);
    expect((await pay(gateway, "pressing", from(3))).status).toBe(200);
  });

  it("while all who are remembered are full share one place: they are slowed, never suspended, and free again soon", async () => {
    await using gateway = await startBehind({ abuse: ABUSE, capacity: 20, trustedProxies: ["127.0.0.1"] });
    // Keys without end from one address, all of them full: they and the address take every place.
    for (let key = 0; key < 19; key++) for (let i = 0; i < 2; i++) await pay(gateway, `full-${key}`, from(key % 9));
    const codes = new Set<unknown>();
    for (let i = 0; i < 200; i++) codes.add((await pay(gateway, `new-${i}`, from(1_000 + i))).json.code);
    expect(codes).not.toContain("ABUSE_SUSPEND");
    await gateway.clock.advance(60_000);
    expect((await pay(gateway, "new-1", from(1_001))).headers["x-ratelimit-remaining"]).toBe("5");
  });
});

describe("a key and its address together", () => {
  const row = fc.constantFrom("POST /v1/withdraw/create", "GET /v1/qr", "GET /v1/health");
  const walk = fc.array(
    fc.record({
      key: fc.integer({ min: 0, max: 14 }),
      address: fc.integer({ min: 0, max: 1 }),
      pause: fc.oneof(
        { weight: 8, arbitrary: fc.integer({ min: 0, max: 60 }) },
        { weight: 1, arbitrary: fc.integer({ min: 0, max: 8_000 }) },
        { weight: 1, arbitrary: fc.constantFrom(4_999, 5_000, 59_999, 60_000) },
      ),
    }),
    { minLength: 1, maxLength: 250 },
  );

  it("are refused together or not at all, and waiting Retry-After always works", () => {
    fc.assert(
      fc.property(row, walk, fc.boolean(), (name, steps, suspends) => {
        let at = 0;
        const clock = { now: () => 1_800_000_000_000 + at, monotonic: () => at };
        const limiter = new Limiter({
          counters: createCounters(clock),
          rows: defaultRows,
          abuse: suspends && ABUSE,
          clock,
        });
        const asks = (key: number, address: number): LimitVerdict =>
          limiter.check(
            name,
            callersIn(["x-api-key", `k${key}`], "x-api-key", "authorization", `10.0.0.${address}`),
          ) as LimitVerdict;
        for (const { key, address, pause } of steps) {
          at += pause;
          const verdict = asks(key, address);
          if (verdict.code === undefined) continue;
          // Nothing moved: asked again at once, it is refused again, with windows that are no emptier and no fuller.
          const again = asks(key, address);
          expect(again.headers["X-RateLimit-Remaining"]).toBe(verdict.headers["X-RateLimit-Remaining"]);
          expect(again.headers["X-Burst-Remaining"]).toBe(verdict.headers["X-Burst-Remaining"]);
          if (pause % 4 !== 0) continue;
          at += (again.retryAfter as number) * 1_000;
          expect(asks(key, address).code).toBeUndefined();
        }
      }),
      { numRuns: 500 },
    );
  });
});
