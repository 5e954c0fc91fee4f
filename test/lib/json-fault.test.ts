import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { faultIn } from "../../core/lib/json-fault.ts";

describe("the place where a text stops being JSON", () => {
  it.each([
    ["", "column 1"],
    ["{", "column 2"],
    ['{"a":1,}', "column 8"],
    ["[1,]", "column 4"],
    ['{"a" 1}', "column 6"],
    ["{'a':1}", "column 2"],
    ['{"a":1}\n\n{"a":2}', "line 3, column 1"],
    ['{\n  "id": "x",\n  "data": {"a": tru}\n}', "line 3, column 17"],
    ['{"a": 01}', "column 7"],
    ['{"a": 1.}', "column 7"],
    ['{"a": "\\x"}', "column 8"],
    ['{"a": "b\n"}', "line 1, column 9"],
    ['["a', "column 4"],
    ["[1}", "column 3"],
    ["1 2", "column 3"],
  ])("of %j is %s", (text, place) => {
    expect(faultIn(text)).toBe(place);
  });

  it("of a text that is cut off is its end, wherever it is cut within an object", () => {
    fc.assert(
      fc.property(fc.json(), fc.nat(), (value, at) => {
        const text = `{"a":${JSON.stringify(value)},"b":[`;
        // Numbers and words are whole as far as they go, or are none at all.
        const cut = text
          .slice(0, at % (text.length + 1))
          .replace(/[\w.+-]+$/, "")
          .replace(/\\+$/, "");
        if (/(?:^|[^\\])\\$|\\u[\da-f]{0,3}$/i.test(cut)) return;
        expect(faultIn(cut)).toBe(`column ${cut.length + 1}`);
      }),
    );
  });
});
