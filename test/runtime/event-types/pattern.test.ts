// Patterns of schemas: they say what the engine of JavaScript says, and take linear time where that takes for ever.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createPattern, patternBudget } from "../../../core/runtime/event-types/pattern.ts";

const plenty = patternBudget;

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
  "[^\\]a-c]x|\\u{1F600}|\\uD83D\\uDE01|\\x41\\n\\cJ",
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
    const ours = createPattern(source, plenty());
    const theirs = new RegExp(source, "u");
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 8 }), (parts) => {
        const text = parts.join("");
        expect(ours.test(text), JSON.stringify(text)).toBe(theirs.test(text));
      }),
      { numRuns: 300 },
    );
  });

  it("takes a number of steps that grows with the text alone, where JavaScript takes for ever", () => {
    const budget = patternBudget(10_000_000);
    expect(createPattern("^(a+)+$", budget).test(`${"a".repeat(100_000)}!`)).toBe(false);
    expect(createPattern("(x+x+)+y", budget).test("x".repeat(100_000))).toBe(false);
    expect(budget.left).toBeGreaterThan(9_000_000);
  });

  it("stops when its steps are used up, and then does not match", () => {
    const budget = patternBudget(1_000);
    const pattern = createPattern("^a*$", budget);
    expect(pattern.test("a".repeat(500))).toBe(true);
    expect(pattern.test("a".repeat(5_000))).toBe(false);
    expect(budget.left).toBeGreaterThan(-100);
  });

  it("remembers no more than a fixed amount, whatever it is tried on", () => {
    const pattern = createPattern("[^é]{200}é", plenty());
    let text = "";
    for (let i = 0; i < 3_000; i++) text += String.fromCodePoint(0x4e00 + i);
    expect(pattern.test(text)).toBe(false);
    expect(pattern.test(`${text}é`)).toBe(true);
  });

  it("shares its memory with the others of a config, however many there are", () => {
    const budget = patternBudget();
    const patterns = Array.from({ length: 50 }, (_, i) => createPattern(`[^é]{${100 + i}}é`, budget));
    for (const pattern of patterns) {
      let text = "";
      for (let i = 0; i < 500; i++) text += String.fromCodePoint(0x4e00 + i);
      expect(pattern.test(text)).toBe(false);
      expect(budget.remembered).toBeLessThan(201_000);
    }
    expect(patterns.every((pattern) => pattern.test(`${"a".repeat(200)}é`))).toBe(true);
  });

  it.each([
    ["(a", "is no regular expression"],
    ["(?=a)b", "look-around"],
    ["(?<!a)b", "look-around"],
    ["(a)\\1", "refers back"],
    ["((a{100}){100}){100}", "is too large"],
    ["(){1000000000}", "more than 2000 times"],
    ["a".repeat(2_001), "more than 2000 characters"],
  ])("is refused where it could not be tried in linear time: %s", (source, why) => {
    expect(() => createPattern(source, plenty())).toThrow(why);
  });
});
