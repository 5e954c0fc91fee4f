/** Cuts the power at many moments of a recording, and has each state judged. */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Disk } from "./disk.ts";
import { materialize, seeded, statesOf, type Random } from "./states.ts";
import type { Step } from "./trace.ts";

export interface Cutting {
  readonly disk: Disk;
  readonly steps: readonly Step[];
  /** States are written into folders in here. */
  readonly scratch: string;
  /** Told of every line that the process said, before any state is judged that lies behind it. */
  readonly hear?: (line: string) => void;
  /** Opens the state in the folder. @returns what is wrong with it */
  readonly judge: (folder: string) => Promise<string | undefined>;
  readonly seed?: number;
  /** How often the power is cut, at moments of all sorts: a rename in one folder, a sync of another … @default 12 */
  readonly moments?: number;
  /** States by chance, and single steps lost or kept alone, at each moment. @default 2 */
  readonly chance?: number;
  /** Ends after so many wrong states. @default 3 */
  readonly enough?: number;
}

export interface Outcome {
  readonly states: number;
  readonly wrong: readonly string[];
}

/** More of everything, for a search in the background: a factor. */
const EFFORT = Number(process.env["TEST_POWER_EFFORT"] ?? "1");
/** How long one recorded life may take on a busy machine. */
export const PATIENCE_MS = 120_000 * Math.max(1, EFFORT ** 2);

/** Replays all steps on the disk. */
export async function cutPower(cutting: Cutting): Promise<Outcome> {
  const { disk, steps, scratch, hear, judge, seed = Number(process.env["TEST_POWER_SEED"] ?? "1") } = cutting;
  const { moments = 12, chance = 2, enough = 3 } = cutting;
  const random = seeded(seed);
  const chosen = momentsOf(steps, disk.path, random, Math.ceil(moments * EFFORT));
  const wrong: string[] = [];
  let states = 0;
  for (const [index, step] of steps.entries()) {
    if (step.op === "say") hear?.(step.line);
    disk.apply(step);
    if (!chosen.has(index) || wrong.length >= enough) continue;
    for (const state of statesOf(disk, random, Math.ceil(chance * EFFORT))) {
      const folder = join(scratch, `state-${states++}`);
      mkdirSync(folder, { mode: 0o700 });
      materialize(disk, state, folder);
      const problem = await judge(folder).catch((error: unknown) => String(error));
      rmSync(folder, { recursive: true });
      if (problem !== undefined)
        wrong.push(`after step ${index} (${sortOf(step, new Map())}), ${state.name}: ${problem}`);
    }
  }
  return { states, wrong };
}

/** Moments of all sorts in turn, those of one sort by chance; and the last. */
function momentsOf(steps: readonly Step[], root: string, random: Random, count: number): ReadonlySet<number> {
  const sorts = new Map<string, number[]>();
  const paths = new Map<number, string>();
  for (const [index, step] of steps.entries()) {
    if (step.op === "open") paths.set(step.fd, step.path);
    const path = "path" in step ? step.path : "fd" in step ? paths.get(step.fd) : root;
    const changes = step.op !== "close" && step.op !== "syncing" && (step.op !== "open" || step.create);
    if (!changes || path?.startsWith(root) !== true) continue;
    const sort = sortOf(step, paths);
    const list = sorts.get(sort);
    if (list === undefined) sorts.set(sort, [index]);
    else list.push(index);
  }
  const chosen = new Set<number>([steps.length - 1]);
  const left = [...sorts.values()];
  while (chosen.size < count && left.length > 0) {
    const at = Math.floor(random() * left.length);
    // Each sort once before any of them twice.
    for (const list of [...left.slice(at), ...left.slice(0, at)]) {
      if (chosen.size < count) chosen.add(list.splice(Math.floor(random() * list.length), 1)[0] as number);
    }
    for (let i = left.length - 1; i >= 0; i--) if (left[i]?.length === 0) left.splice(i, 1);
  }
  return chosen;
}

const sortOf = (step: Step, paths: ReadonlyMap<number, string>): string => {
  const about = "path" in step ? step.path : "fd" in step ? (paths.get(step.fd) ?? "") : step.line;
  return `${step.op} ${about.replaceAll(/\d+/g, "#")}`;
};
