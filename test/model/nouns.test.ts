import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DamagedRecordError } from "../../core/model/errors.ts";
import { bodyData, deliveryBody } from "../../core/model/event.ts";
import { eventOrdinal, isOrdinal, ordinalFloor, ordinals, ordinalTime, randomId } from "../../core/model/ids.ts";
import {
  API_KEY,
  DUE,
  EVENT,
  EVENT_ID,
  EXPIRY,
  KEY_TYPE,
  KINDS,
  OF_SUBSCRIPTION,
  SUBSCRIPTION,
  TYPE,
} from "../../core/model/schema.ts";
import { isEventId, isEventName, isEventPattern, isKeyId, matchesPattern } from "../../core/model/names.ts";

const time = fc.integer({ min: 0, max: 9_999_999_999_999 });
const ordinal = time.map((ms) => ordinals(() => ms)());
const alphabet = "ABCabc019_-".split("");
const word = fc.string({ unit: fc.constantFrom(...alphabet), minLength: 1, maxLength: 8 });
const letter = fc.constantFrom("a", "Z", "0");
const keyId = fc
  .tuple(letter, fc.string({ unit: fc.constantFrom(...alphabet, ":"), maxLength: 63 }))
  .map((two) => two.join(""));
const eventName = fc
  .tuple(
    word,
    fc.array(
      fc.tuple(fc.constantFrom(":", "."), word).map((two) => two.join("")),
      { maxLength: 4 },
    ),
  )
  .map(([first, rest]) => first + rest.join(""));

describe("ordinals", () => {
  it("grow strictly though the clock steps back a little, follow it when it steps back far, and tell their time", () => {
    const near = fc.integer({ min: 0, max: 3_000 });
    fc.assert(
      fc.property(fc.array(fc.oneof(time, near), { minLength: 1, maxLength: 50 }), (times) => {
        let now = 0;
        const mint = ordinals(() => now);
        let latest = 0;
        let made: string[] = [];
        const all = times.map((at) => {
          now = at;
          if (at < latest - 1_000) made = [];
          latest = at < latest - 1_000 ? at : Math.max(latest, at);
          const minted = mint();
          expect(isOrdinal(minted)).toBe(true);
          expect(ordinalTime(minted)).toBe(latest);
          made.push(minted);
          expect(made.toSorted()).toEqual(made);
          return minted;
        });
        expect(new Set(all).size).toBe(all.length);
      }),
    );
  });

  it("stay in order for a hundred thousand within one millisecond", () => {
    const mint = ordinals(() => 1_767_225_600_000);
    let before = "";
    for (let i = 0; i < 100_000; i++) {
      const next = mint();
      if (next <= before) expect.fail(`${next} after ${before}`);
      before = next;
    }
  });

  it("begin at the floor of their time", () => {
    fc.assert(
      fc.property(time, (ms) => {
        const minted = ordinals(() => ms)();
        expect(ordinalFloor(ms) <= minted && minted < ordinalFloor(ms + 1)).toBe(true);
      }),
    );
  });

  it("are read out of the relay's own event ids alone", () => {
    fc.assert(
      fc.property(ordinal, (minted) => {
        expect(eventOrdinal(`evt_${minted}`)).toBe(minted);
      }),
    );
    for (const id of ["evt_", "evt_1", "evt_8zzzzzzzzzzzzzzzzzzzzzzzzz", "sub_01h000000000000000000000000", "x"]) {
      expect(eventOrdinal(id)).toBeUndefined();
    }
  });

  it("and random ids never repeat", () => {
    const made = new Set(Array.from({ length: 10_000 }, () => randomId("sub")));
    expect(made.size).toBe(10_000);
    for (const id of made) expect(id).toMatch(/^sub_[0-9a-hjkmnp-tv-z]{26}$/);
  });
});

describe("event names", () => {
  it("are matched by themselves, by a star for a part and by a last star for the rest", () => {
    fc.assert(
      fc.property(eventName, (name) => {
        expect(isEventName(name)).toBe(name.length <= 128);
        expect(matchesPattern(name, name)).toBe(true);
        expect(matchesPattern("*", name)).toBe(!name.startsWith("relay:"));
        expect(matchesPattern(`${name}:*`, name)).toBe(false);
        expect(matchesPattern(`${name}:*`, `${name}:x.y`)).toBe(true);
        expect(matchesPattern(`${name}.*`, `${name}:x`)).toBe(false);
        expect(matchesPattern(`*:${name}`, `x:${name}`)).toBe(true);
        expect(matchesPattern(name, `${name}:x`)).toBe(false);
      }),
    );
  });

  it("of the relay's own are matched only by patterns that say so", () => {
    expect(matchesPattern("*", "relay:ping")).toBe(false);
    expect(matchesPattern("*:ping", "relay:ping")).toBe(false);
    expect(matchesPattern("relay:*", "relay:delivery.failed")).toBe(true);
    expect(matchesPattern("relay:*.failed", "relay:delivery.failed")).toBe(true);
  });

  it("and patterns and ids keep to their alphabets", () => {
    for (const text of ["", ":", "a:", ".a", "a::b", "a b", "é", "a\n", "a*", "x".repeat(129), "*"]) {
      expect(isEventName(text)).toBe(false);
    }
    for (const text of ["", "a*", "**", "*a", "a:", "*:", "a\n", "x".repeat(129)]) {
      expect(isEventPattern(text)).toBe(false);
    }
    for (const text of ["*", "*:*", "a.*", "*.a:*"]) expect(isEventPattern(text)).toBe(true);
    for (const text of ["", "_a", "-a", ":a", "a~", "a/b", "a\n", "x".repeat(129)]) expect(isEventId(text)).toBe(false);
    expect([isKeyId("x".repeat(64)), isKeyId("x".repeat(65)), isEventId("x".repeat(128))]).toEqual([true, false, true]);
  });
});

describe("keys of the shelves", () => {
  it("are printable ASCII, and different for different ids", () => {
    fc.assert(
      fc.property(keyId, keyId, ordinal, (one, other, minted) => {
        const made = (id: string): string[] => [
          EVENT.key({ keyId: id, ordinal: minted }),
          EVENT_ID.key({ keyId: id, id: other }),
          EVENT_ID.key({ keyId: other, id }),
          SUBSCRIPTION.key({ keyId: id, id: "sub_1" }),
          API_KEY.key({ keyId: id }),
          TYPE.key({ name: id }),
          KEY_TYPE.key({ keyId: id, name: other }),
          KEY_TYPE.key({ keyId: other, name: id }),
        ];
        for (const key of made(one)) expect(key).toMatch(/^[a-z]+:[\x21-\x7e]+$/);
        if (one === other) return;
        for (const [i, key] of made(one).entries()) if (i !== 1 && i !== 2) expect(key).not.toBe(made(other)[i]);
        expect(EVENT_ID.key({ keyId: one, id: other })).not.toBe(EVENT_ID.key({ keyId: other, id: one }));
      }),
    );
  });

  it("tell what they were made of", () => {
    fc.assert(
      fc.property(keyId, ordinal, time, fc.nat(), fc.nat(), (id, minted, dueAt, generation, cycle) => {
        const due = { subscriptionId: "sub_1", keyId: id, ordinal: minted, dueAt, generation, cycle, attempts: 3 };
        expect(DUE.orThrow(DUE.write(due), DUE.key(due))).toEqual(due);
        expect(API_KEY.id(API_KEY.key({ keyId: id })).keyId).toBe(id);
        expect(SUBSCRIPTION.id(SUBSCRIPTION.key({ keyId: id, id: "sub_1" }))).toEqual({ keyId: id, id: "sub_1" });
        const target = EVENT.key({ keyId: id, ordinal: minted });
        expect(EXPIRY.id(EXPIRY.key({ at: dueAt, target }))).toEqual({ at: dueAt, target });
      }),
    );
  });

  it("of what belongs to a subscription begin with its ids, since all under them goes with it", () => {
    const ids = { keyId: "key_1", subscriptionId: "sub_1" };
    expect(OF_SUBSCRIPTION).toEqual(KINDS.filter((kind) => kind.under(ids).includes("sub_1")));
    expect(OF_SUBSCRIPTION).toHaveLength(10);
    for (const kind of OF_SUBSCRIPTION)
      expect(kind.under({ keyId: "key_1", subscriptionId: "sub_1" })).toMatch(/^[a-z]+:(?:key_1:)?sub_1(?::|$)/);
  });

  it("are read only by their own kind", () => {
    for (const kind of KINDS)
      for (const other of KINDS)
        if (kind !== other) expect(() => kind.id(`${other.start}a:b:c:d`)).toThrow(SyntaxError);
  });

  it("sort by time", () => {
    fc.assert(
      fc.property(time, time, ordinal, (one, other, minted) => {
        const key = (dueAt: number): string => DUE.key({ subscriptionId: "sub_1", dueAt, ordinal: minted });
        expect(key(one) < key(other)).toBe(one < other);
        expect(EXPIRY.key({ at: one, target: "a" }) < EXPIRY.key({ at: other, target: "a" })).toBe(one < other);
      }),
    );
  });
});

describe("an event record", () => {
  it("gives back the event and the published data as they were", () => {
    const anything = fc.record({
      id: keyId,
      type: eventName,
      keyId,
      ordinal,
      createdAt: time,
      acceptedAt: time,
      subscriptionIds: fc.array(fc.constantFrom("sub_a", "sub_b")),
      traceparent: fc.option(fc.oneof(fc.constant("00-a-b-01"), fc.string({ unit: "binary" })), { nil: undefined }),
    });
    const data = fc.oneof(fc.json(), fc.constantFrom('{\n "a":1.0 }', '"\u{2028}"', '"\\ud800"'));
    fc.assert(
      fc.property(anything, data, (about, published) => {
        const body = deliveryBody(about.id, about.type, about.keyId, about.createdAt, published);
        const event = { ...about, body };
        expect(EVENT.orThrow(EVENT.write(event))).toEqual(event);
        expect(bodyData(event)).toBe(published);
        expect(JSON.parse(body)).toMatchObject({ id: about.id, type: about.type, keyId: about.keyId });
      }),
    );
  });

  it("that is none is refused", () => {
    expect(() => EVENT.orThrow("{}")).toThrow(DamagedRecordError);
    expect(() => EVENT.orThrow("x\n{}")).toThrow(DamagedRecordError);
  });
});
