import { DELIVERY } from "../../core/model/schema.ts";
import fc from "fast-check";
import { expect, it } from "vitest";
import { withChecksum } from "../../core/lib/checksum.ts";
import type { Delivery } from "../../core/model/delivery.ts";

const time = fc.integer({ min: 0, max: 9_999_999_999_999 });
const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });
const anything = fc.string({ unit: "binary", maxLength: 20 });
const attempt = fc.record({
  cycle: fc.nat(),
  number: fc.integer({ min: 1, max: 5 }),
  startedAt: time,
  durationMs: fc.nat({ max: 300_000 }).map((tenths) => tenths / 10),
  statusCode: maybe(fc.integer({ min: 100, max: 999 })),
  error: maybe(fc.constantFrom("dns" as const, "timeout" as const)),
  detail: maybe(anything),
  responseExcerpt: maybe(anything),
  responseTruncated: maybe(fc.boolean()),
});
const delivery: fc.Arbitrary<Delivery> = fc.record({
  keyId: fc.constantFrom("key_1", "a:b-c"),
  eventId: fc.constantFrom("evt_01kajc7dvq8d8n8kx5p6q7r8s9", "my:own"),
  ordinal: fc.constant("01kajc7dvq8d8n8kx5p6q7r8s9"),
  subscriptionId: fc.constant("sub_01kajc7dvq8d8n8kx5p6q7r8s9"),
  status: fc.constantFrom("pending", "delivered", "failed"),
  reason: maybe(fc.constant("exhausted" as const)),
  cycle: fc.nat(),
  generation: fc.nat(),
  attempts: fc.array(attempt, { maxLength: 5 }),
  nextAttemptAt: maybe(time),
  updatedAt: time,
});

it("a delivery's record is JSON, whatever the far side has said", () => {
  fc.assert(
    fc.property(delivery, (one) => {
      expect(DELIVERY.write(one)).toBe(withChecksum(JSON.stringify(one).slice(1)));
      expect(DELIVERY.orThrow(DELIVERY.write(one))).toEqual(one);
    }),
  );
});
