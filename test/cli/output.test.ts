// Nothing that was received may steer a terminal.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fields, json, parseExact, printable, printableLines, printTable } from "../../cli/support/output.ts";

const CONTROL = /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u2028\u2029]/;

describe("received text", () => {
  it("never reaches the terminal with a control character", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(printable(text)).not.toMatch(CONTROL);
        expect(printableLines(text).replaceAll(/[\n\t]/g, "")).not.toMatch(CONTROL);
        expect(json({ text }).replaceAll("\n", "")).not.toMatch(CONTROL);
      }),
    );
  });

  it("is shown escaped, and as it is where it is harmless", () => {
    expect(printable("\u001b[2Jhi\u0007")).toBe("\\u001b[2Jhi\\u0007");
    expect(printable("Grüße, 世界 🎉")).toBe("Grüße, 世界 🎉");
    expect(printable("a\u202eb")).toBe("a\\u202eb");
  });

  it("stays the same JSON when it is printed as JSON", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(JSON.parse(json(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it("keeps numbers exactly as they came", () => {
    const text = '{"a":1.0,"b":90071992547409931,"c":1e400,"d":-0,"e":[12.50]}';
    expect(json(parseExact(text)).replaceAll(/\s/g, "")).toBe(text);
  });
});

describe("columns", () => {
  it("stand in line", () => {
    expect(
      printTable(
        ["id", "name"],
        [
          ["1", "a"],
          ["22222", undefined],
          [3, "\n"],
        ],
      ),
    ).toBe(["ID     NAME", "1      a", "22222", "3      \\u000a"].join("\n"));
    expect(
      fields([
        ["id", 1],
        ["left out", undefined],
        ["name", "x"],
      ]),
    ).toBe("id    1\nname  x");
  });
});
