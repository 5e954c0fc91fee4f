// No file imports itself by way of others, not even for a type: each can be read with what stands below it alone.
import { readFile } from "node:fs/promises";
import { glob } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { describe, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const SPECIFIER = /(?:\bfrom|\bimport)\s*\(?\s*"(\.{1,2}\/[^"]+\.tsx?)"/g;

async function importsOf(): Promise<ReadonlyMap<string, readonly string[]>> {
  const found = new Map<string, readonly string[]>();
  for await (const name of glob("{core,plugins,config,cli,dashboard}/**/*.{ts,tsx}", { cwd: root })) {
    const text = await readFile(join(root, name), "utf8");
    const specifiers = [...text.matchAll(SPECIFIER)].map(([, specifier]) => specifier as string);
    found.set(
      name,
      specifiers.map((specifier) => relative(root, resolve(root, dirname(name), specifier))),
    );
  }
  return found;
}

/** One way back to each file that is on a circle. */
function circlesIn(graph: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const done = new Set<string>();
  const path: string[] = [];
  const circles: string[] = [];
  function walk(file: string): void {
    const at = path.indexOf(file);
    if (at >= 0) return void circles.push([...path.slice(at), file].join(" → "));
    if (done.has(file)) return;
    path.push(file);
    for (const next of graph.get(file) ?? []) walk(next);
    path.pop();
    done.add(file);
  }
  for (const file of graph.keys()) walk(file);
  return circles;
}

describe("imports", () => {
  it("go one way: there is no circle", async () => {
    expect(circlesIn(await importsOf())).toEqual([]);
  });

  it("are seen to be a circle when they are one", () => {
    const graph = new Map([
      ["a", ["b"]],
      ["b", ["c"]],
      ["c", ["a"]],
    ]);
    expect(circlesIn(graph)).toEqual(["a → b → c → a"]);
  });
});
