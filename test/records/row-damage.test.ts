/** The rows of a sequence: one that has changed by a single bit, or is cut off, is known as damaged and is never believed. */
import { expect, it } from "vitest";
import { DAMAGED } from "../../core/model/kind.ts";
import { HELD, PASSED, SEQUENCE } from "../../core/model/schema.ts";

const ID = { keyId: "key_1", subscriptionId: "sub_1", sequence: 0 };
const held = {
  keyId: "key_1",
  ordinal: "0001vzzzzz00000100000000",
  place: 12,
  since: 1_800_000_000_000,
  eventId: "evt_1",
};

it.each([
  [
    "what has entered",
    SEQUENCE.put(ID, { busy: true, entered: 12_345 }).value,
    SEQUENCE,
    { busy: true, entered: 12_345 },
  ],
  [
    "what has entered one at rest",
    SEQUENCE.put(ID, { busy: false, entered: 7 }).value,
    SEQUENCE,
    { busy: false, entered: 7 },
  ],
  ["what has passed", PASSED.put(ID, 12_345).value, PASSED, 12_345],
  ["what holds it up", HELD.put(ID, held).value, HELD, held],
])("the row of %s", (_, text, kind, read) => {
  expect(kind.read(text)).toEqual(read);
  for (let at = 0; at < text.length; at++) {
    expect(kind.read(text.slice(0, at)), `cut at ${at}`).toBe(DAMAGED);
    for (let bit = 0; bit < 7; bit++) {
      const flipped = text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ (1 << bit)) + text.slice(at + 1);
      expect(kind.read(flipped), flipped).toBe(DAMAGED);
    }
  }
});
