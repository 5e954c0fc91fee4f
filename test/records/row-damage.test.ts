/** The rows of a sequence: one that has changed by a single bit, or is cut off, is known as damaged and is never believed. */
import { expect, it } from "vitest";
import { heldText, parseHeld, parsePassed, parseRow, passedText, rowText } from "../../core/records/sequence-rows.ts";

const HELD = {
  keyId: "key_1",
  ordinal: "0001vzzzzz00000100000000",
  place: 12,
  since: 1_800_000_000_000,
  eventId: "evt_1",
};

it.each([
  ["what has entered", rowText({ busy: true, entered: 12_345 }), parseRow, { busy: true, entered: 12_345 }],
  ["what has entered one at rest", rowText({ busy: false, entered: 7 }), parseRow, { busy: false, entered: 7 }],
  ["what has passed", passedText(12_345), parsePassed, 12_345],
  ["what holds it up", heldText(HELD), parseHeld, HELD],
])("the row of %s", (_, text, parse, read) => {
  expect(parse(text)).toEqual(read);
  for (let at = 0; at < text.length; at++) {
    expect(parse(text.slice(0, at)), `cut at ${at}`).toBeUndefined();
    for (let bit = 0; bit < 7; bit++) {
      const flipped = text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ (1 << bit)) + text.slice(at + 1);
      expect(parse(flipped), flipped).toBeUndefined();
    }
  }
});
