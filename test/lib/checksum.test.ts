import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { withChecksum } from "../../core/lib/checksum.ts";
import type { Delivery } from "../../core/model/delivery.ts";
import { DamagedRecordError } from "../../core/model/errors.ts";
import { deliveryBody } from "../../core/model/event.ts";
import { ATTEMPTS, DELIVERY, EVENT } from "../../core/model/schema.ts";

const ordinal = "01kajc7dvq8d8n8kx5p6q7r8s9";
const other = "01kajc7dvq8d8n8kx5p6q7r8t0";
const sub = "sub_01kajc7dvq8d8n8kx5p6q7r8s9";

const event = fc
  .record({
    id: fc.constantFrom(`evt_${ordinal}`, "my:own"),
    type: fc.constantFrom("deposit:paid", "a"),
    keyId: fc.constantFrom("key_1", "a:b-c"),
    createdAt: fc.nat(9_999_999_999_999),
    acceptedAt: fc.nat(9_999_999_999_999),
    subscriptionIds: fc.constantFrom([], [sub], [sub, "sub_b"]),
    data: fc.oneof(fc.json(), fc.constant('{"amount":1000,"name":"Żółć 😀"}')),
  })
  .map(({ data, ...rest }) => {
    const body = deliveryBody(rest.id, rest.type, rest.keyId, rest.createdAt, data);
    return { ...rest, ordinal, body };
  });
const attempt = fc.record({
  cycle: fc.constant(1),
  number: fc.integer({ min: 1, max: 5 }),
  startedAt: fc.nat(),
  durationMs: fc.nat(),
  statusCode: fc.constantFrom(200, 500),
});
const delivery: fc.Arbitrary<Delivery> = fc.record({
  keyId: fc.constantFrom("key_1", "a:b-c"),
  eventId: fc.constant(`evt_${ordinal}`),
  ordinal: fc.constant(ordinal),
  subscriptionId: fc.constant(sub),
  status: fc.constantFrom("pending", "delivered", "failed"),
  cycle: fc.constant(1),
  generation: fc.nat(9),
  attempts: fc.array(attempt, { maxLength: 5 }),
  updatedAt: fc.nat(),
});

/** A record as it is stored, under its key, and what reads it. */
const record = fc.oneof(
  event.map((one) => ({
    text: EVENT.write(one),
    key: EVENT.key({ keyId: one.keyId, ordinal }),
    decode: (...of: Stored) => EVENT.orThrow(...of),
  })),
  delivery.map((one) => ({
    text: DELIVERY.write(one),
    key: DELIVERY.key({ subscriptionId: sub, ordinal }),
    decode: (...of: Stored) => DELIVERY.orThrow(...of),
  })),
  delivery.map((one) => ({
    text: ATTEMPTS.write(one),
    key: ATTEMPTS.key({ subscriptionId: sub, ordinal, cycle: 1 }),
    decode: (...of: Stored) => ATTEMPTS.orThrow(...of),
  })),
);
type Stored = [text: string, key: string];

/** As the first edition wrote it. */
const withoutChecksum = (text: string): string => `{${text.slice('{"sum":"12345678",'.length)}`;

describe("a stored record", () => {
  it("is refused when any one character of it is another", () => {
    fc.assert(
      fc.property(record, fc.nat(), fc.string({ unit: "binary", minLength: 1, maxLength: 1 }), (one, where, put) => {
        const at = where % one.text.length;
        // Half of a pair of surrogates is no character, and no storage keeps one.
        const characters = Array.from(one.text);
        const i = at % characters.length;
        if (characters[i] === put || /[\uD800-\uDFFF]/.test(put)) return;
        const changed = [...characters.slice(0, i), put, ...characters.slice(i + 1)].join("");
        expect(() => one.decode(changed, one.key)).toThrow(DamagedRecordError);
      }),
      { numRuns: 2_000 },
    );
  });

  it("is refused when any one bit of it is flipped", () => {
    fc.assert(
      fc.property(record, (one) => {
        const bytes = Buffer.from(one.text, "utf8");
        for (let bit = 0; bit < bytes.length * 8; bit += 1 + (bit % 5)) {
          const flipped = Buffer.from(bytes);
          flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
          expect(() => one.decode(flipped.toString("utf8"), one.key), `bit ${bit}`).toThrow(DamagedRecordError);
        }
      }),
      { numRuns: 20 },
    );
  });

  it("is refused when it is cut off, or stands under another's key", () => {
    fc.assert(
      fc.property(record, fc.nat(), (one, length) => {
        expect(() => one.decode(one.text.slice(0, length % one.text.length), one.key)).toThrow(DamagedRecordError);
        expect(() => one.decode(one.text, one.key.replace(ordinal, other))).toThrow(DamagedRecordError);
        expect(() => one.decode(one.text, one.key)).not.toThrow();
      }),
    );
  });
});

describe("a record of the first edition", () => {
  it("is read as it was, and has its checksum when it is written next", () => {
    fc.assert(
      fc.property(event, delivery, (one, two) => {
        const [old, later] = [withoutChecksum(EVENT.write(one)), EVENT.write(one)];
        expect(EVENT.orThrow(old, EVENT.key({ keyId: one.keyId, ordinal }))).toEqual(one);
        expect(EVENT.write(EVENT.orThrow(old))).toBe(later);
        const plain = JSON.stringify(two);
        expect(DELIVERY.orThrow(plain, DELIVERY.key({ subscriptionId: sub, ordinal }))).toEqual(two);
        expect(DELIVERY.write(DELIVERY.orThrow(plain))).toBe(withChecksum(plain.slice(1)));
        expect(
          ATTEMPTS.orThrow(JSON.stringify(two.attempts), ATTEMPTS.key({ subscriptionId: sub, ordinal, cycle: 1 }))
            .attempts,
        ).toEqual(two.attempts);
      }),
    );
  });

  it("is refused when its head and its body say different things, or its body is no JSON", () => {
    const body = deliveryBody(`evt_${ordinal}`, "deposit:paid", "key_1", 1, '{"n":1}');
    const about = { id: `evt_${ordinal}`, type: "deposit:paid", keyId: "key_1", ordinal, createdAt: 1, acceptedAt: 1 };
    const text = withoutChecksum(EVENT.write({ ...about, subscriptionIds: [sub], body }));
    const key = EVENT.key({ keyId: "key_1", ordinal });
    expect(EVENT.orThrow(text, key).id).toBe(about.id);
    expect(() => EVENT.orThrow(text.replace("deposit:paid", "deposit:pbid"), key)).toThrow(DamagedRecordError);
    expect(() => EVENT.orThrow(text.replace('{"n":1}', '{"n":1'), key)).toThrow(DamagedRecordError);
    expect(() => EVENT.orThrow(text, EVENT.key({ keyId: "key_1", ordinal: other }))).toThrow(DamagedRecordError);
  });
});
