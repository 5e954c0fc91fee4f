// The budgets: figures of the code that only fall. `node test/house/budget.ts --write` lowers budget.json to today's figures,
// and refuses to raise one; without `--write` it prints what is above. Lines may move between rooms while their sum does not rise.
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { measure, type Figures } from "./measure.ts";

/** Lines by room, functions of more than 80 lines, folders of more than 25 files, and what one warm event runs through. */
type Budget = Readonly<Record<"lines" | "functions" | "folders" | "census", Figures>>;

const FILE = join(import.meta.dirname, "budget.json");
export const budget = JSON.parse(readFileSync(FILE, "utf8")) as Budget;

/** Runs the census in a process of its own: on the sources, not on the bundle that other tests run. */
export async function census(): Promise<Figures> {
  const args = [join(import.meta.dirname, "census.ts")];
  const env = { PATH: process.env["PATH"], HOME: process.env["HOME"], TMPDIR: process.env["TMPDIR"] };
  return JSON.parse((await promisify(execFile)(process.execPath, args, { env })).stdout) as Figures;
}

export const sum = (figures: Figures): number => Object.values(figures).reduce((all, one) => all + one, 0);

/** Returns a line for each figure that is above its budget; what has none may be 0. */
export const above = (figures: Figures, allowed: Figures): readonly string[] =>
  Object.entries(figures)
    .filter(([name, figure]) => figure > (allowed[name] ?? 0))
    .map(([name, figure]) => `${name}: ${figure}, budget ${allowed[name] ?? 0}`);

/** The budget with what was moved under its new name: what is new has the figure of what is gone and ends with the same word. */
export function moved(figures: Figures, allowed: Figures): Figures {
  const last = (name: string): string => name.split(/[ /]/).at(-1) as string;
  const gone = Object.keys(allowed).filter((name) => figures[name] === undefined);
  const found = Object.keys(figures).flatMap((name) => {
    if (allowed[name] !== undefined) return [];
    const from = gone.findIndex((old) => last(old) === last(name));
    return from < 0 ? [] : [[name, allowed[gone.splice(from, 1)[0] as string]]];
  });
  return { ...allowed, ...(Object.fromEntries(found) as Figures) };
}

async function main(write: boolean): Promise<void> {
  const { lines, functions, folders } = measure();
  const now: Budget = { lines, functions, folders, census: await census() };
  const over = [
    ...above({ "all lines": sum(lines) }, { "all lines": sum(budget.lines) }),
    ...above(functions, moved(functions, budget.functions)),
    ...above(folders, moved(folders, budget.folders)),
    ...above(now.census, budget.census),
  ];
  for (const line of over) process.stderr.write(`${line}\n`);
  if (over.length > 0) process.exitCode = 1;
  else if (write) writeFileSync(FILE, `${JSON.stringify(now, undefined, 2)}\n`);
}
if (import.meta.main) await main(process.argv.includes("--write"));
