// The page's modules as one: each keeps its own names, and a form that cannot be joined is told.
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { joinModules } from "../../dashboard/join.ts";

const joined = (modules: Readonly<Record<string, string>>): Promise<string> =>
  joinModules("main.ts", async (name) => modules[name.replace(".ts", "")] as string);

/** Runs the joined module, and returns what its modules have put into `shown`. */
async function run(modules: Readonly<Record<string, string>>): Promise<readonly unknown[]> {
  const shown: unknown[] = [];
  runInNewContext(await joined(modules), { shown });
  return shown;
}

describe("modules that are joined", () => {
  it("run in the order in which they are needed, each once, with names of their own", async () => {
    const shown = await run({
      main: 'import { twice as double } from "./a-b.ts";\nimport { x } from "./c.ts";\nconst own = 1;\nshown.push(double(x), own);',
      "a-b":
        'import { x } from "./c.ts";\nconst own = 2;\nexport function twice(value) { return value * own; }\nshown.push(x);',
      c: "const own = 3;\nexport const x = own;\nshown.push(own);",
    });
    expect(shown).toEqual([3, 3, 6, 1]);
  });

  it("take libraries in once, as minifiers write them", async () => {
    const modules = {
      main: 'import {\n  half,\n} from "lib";\nimport { y } from "./y.ts";\nshown.push(half(y));',
      y: 'import { half, rest as left } from "lib/more";\nexport const y = half(8) + left;',
      lib: "shown.push(0);const h=(n)=>n/2;export{h as half,h as whole};\n",
      "lib/more": '\nimport{half as n}from"lib";var rest=1;export{n as half,rest};',
    };
    expect((await joined(modules)).match(/\b(?:import|export)\b.*/g)).toBeNull();
    expect(await run(modules)).toEqual([0, 2.5]);
  });

  it("export classes and functions that wait", async () => {
    const shown = await run({
      main: 'import { Cell, load } from "./all.ts";\nshown.push(new Cell().now, typeof load);',
      all: "export class Cell { now = 4; }\nexport async function load() {}",
    });
    expect(shown).toEqual([4, "function"]);
  });

  it.each([
    ["a circle", { main: 'import { a } from "./a.ts";', a: 'import { b } from "./main.ts";\nexport const a = 1;' }],
    ["a default", { main: 'import a from "./a.ts";', a: "export const a = 1;" }],
    ["what changes", { main: "export let a = 1;" }],
    ["a list", { main: "const a = 1;\nexport { a };" }],
  ])("are refused for %s", async (_, modules) => {
    await expect(joined(modules)).rejects.toThrow(/^main\.ts/);
  });
});
