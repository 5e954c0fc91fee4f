// Patterns of schemas: they say what the engine of JavaScript says, and take linear time where that takes for ever.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createPattern } from "../../../core/runtime/event-types/pattern.ts";

const patterns = [
  "",
  "^$",
  "^[a-z]+(\\.[a-z]+)*$",
  "^(a+)+$",
  "(a|ab)(c|bcd)(d*)",
  "^a{2,3}?b{0,2}c{1,}$",
  "\\bcat\\b",
  "\\Bat",
  "^\\p{Lu}\\P{Lu}*$",
  "^.{1,3}$",
  "[^\\]a-c]x|\\u{1F600}|\\x41\\n\\cJ",
  "^(?<year>\\d{4})-(?:0[1-9]|1[0-2])$",
  "^(|a)*b$",
  "a$|^b",
  "(x?){3}y",
  "\\/\\.?[.*+]",
  "[]|a",
  "^[^]$",
];
const pieces = [
  "a",
  "b",
  "c",
  "d",
  "x",
  "y",
  "-",
  ".",
  " ",
  "cat",
  "2026",
  "1",
  "0",
  "É",
  "é",
  "A\n\n",
  "😀",
  "😁",
  "\n",
  "]",
  "/",
];

describe("a pattern", () => {
  it.each(patterns)("says of every text what JavaScript says: %s", (source) => {
    const ours = createPattern(source);
    const theirs = new RegExp(source, "u");
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 8 }), (parts) => {
        const text = parts.join("");
        expect(ours.test(text), JSON.stringify(text)).toBe(theirs.test(text));
      }),
      { numRuns: 300 },
    );
  });

  it("takes time that grows with the text alone, where JavaScript takes for ever", () => {
    const began = process.cpuUsage();
    expect(createPattern("^(a+)+$").test(`${"a".repeat(100_000)}!`)).toBe(false);
    expect(createPattern("(x+x+)+y").test(`y${"x".repeat(100_000)}`)).toBe(false);
    expect(process.cpuUsage(began).user).toBeLessThan(5_000_000);
  });

  it.each([
    ["(a", "is no regular expression"],
    ["(?=a)b", "linear time"],
    ["(?<!a)b", "linear time"],
    ["(a)\\1", "linear time"],
    ["((a{100}){100}){100}", "linear time"],
    ["(){1000000000}", "linear time"],
    ["a".repeat(2_001), "more than 2000 characters"],
  ])("is refused where it could not be tried in linear time: %s", (source, why) => {
    expect(() => createPattern(source)).toThrow(why);
  });
});
