// The budgets of CONTRIBUTING.md: lines, long functions, full folders, unused exports, and the path of an event only fall.
import { describe, expect, it } from "vitest";
import { above, budget, census, moved } from "./budget.ts";
import { measure, measureTexts } from "./measure.ts";

const HOW = `A budget does not rise: take away elsewhere, then run \`node test/house/budget.ts --write\`, which lowers it and follows what
was moved. See "Budgets" in CONTRIBUTING.md.`;
const now = measure();

describe("a budget", () => {
  it("bounds the lines of each room", () => {
    expect(above(now.lines, budget.lines), HOW).toEqual([]);
  });

  it.each(["functions", "folders"] as const)(
    "lists the %s that are too large, and none grows or stays when mended",
    (kind) => {
      const gone = Object.keys(budget[kind]).filter((name) => now[kind][name] === undefined);
      expect([...above(now[kind], budget[kind]), ...gone], HOW).toEqual([]);
    },
  );

  it("allows no export that no other file imports", () => {
    expect(now.unused, "Take the word `export` away, or all of it. See CONTRIBUTING.md.").toEqual([]);
  });

  // On a busy machine a timer may fire late and beside the event: what has risen, has so each time.
  it("counts the files and functions that one warm event runs through", { retry: 2 }, async () => {
    expect(await census(), `${HOW} \`node test/house/census.ts --list\` names them.`).toEqual(budget.census);
  });
});

describe("the measure of a budget", () => {
  const texts = new Map([
    [
      "core/a/one.ts",
      `export const used = 1;\nexport type Own = 2;\nexport function unused(): void {\n${"\n".repeat(80)}}\n`,
    ],
    ["core/a/two.ts", 'import { used } from "./one.ts";\nexport const later = used, all = 1;\n'],
    ["plugins/b/three.ts", 'const { later } = await import("../../core/a/two.ts");\n'],
    [
      "test/four.test.ts",
      'import * as two from "../core/a/two.ts";\ntype Own = import("../core/a/one.ts").Own;\ntwo.all;\n',
    ],
    ...Array.from({ length: 26 }, (_, n): [string, string] => [`config/${n}.css`, "a {}\n"]),
  ]);

  it("counts lines by room, and finds what is too long, too full or unused", () => {
    expect(measureTexts(texts)).toEqual({
      lines: { "core/a": 86, "plugins/b": 1, config: 26 },
      functions: { "core/a/one.ts unused": 82 },
      folders: { config: 26 },
      unused: ["core/a/one.ts unused"],
    });
  });

  it("lets a figure move to another name, but not rise", () => {
    const allowed = { "core/a.ts f": 100, "core/b.ts g": 90 };
    const figures = { "lib/a.ts f": 100, "core/b.ts g": 91, "core/c.ts h": 81 };
    expect(above(figures, moved(figures, allowed))).toEqual([
      "core/b.ts g: 91, budget 90",
      "core/c.ts h: 81, budget 0",
    ]);
  });
});
