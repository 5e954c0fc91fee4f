/** The states that a power cut may leave, some of them by rule and some by chance, and their copies on a real disk. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SECTOR, type Disk, type Folder, type Node } from "./disk.ts";
import type { History } from "./history.ts";

type Kind = "data" | "size" | "entry";
/** Which of its versions a thing is found in. */
type Choose = (history: History<unknown>, kind: Kind) => number;

export interface State {
  readonly name: string;
  readonly choose: Choose;
}

/** Numbers in [0, 1) that a seed decides. */
export type Random = () => number;
export function seeded(seed: number): Random {
  let state = (seed * 2_654_435_761) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const last = (history: History<unknown>): number => history.versions.length - 1;

/** @param chance how many states by chance, and how many single steps that are kept or lost alone */
export function* statesOf(disk: Disk, random: Random, chance: number): Generator<State> {
  yield { name: "all that is not synced is lost", choose: () => 0 };
  if (disk.open.size === 0) return;
  yield { name: "all that is not synced is there", choose: last };
  yield { name: "names are there, what is in files is not", choose: (h, kind) => (kind === "entry" ? last(h) : 0) };
  yield { name: "names and sizes are there, and zeros", choose: (h, kind) => (kind === "data" ? 0 : last(h)) };
  yield { name: "what is in files is there, names are not", choose: (h, kind) => (kind === "entry" ? 0 : last(h)) };
  const steps = new Set<number>();
  for (const { versions } of disk.open.keys()) for (const { seq } of versions.slice(1)) steps.add(seq);
  const ordered = [...steps].toSorted((a, b) => a - b);
  const single = ordered.length <= chance ? ordered : pick(ordered, random, chance);
  const newest = ordered.at(-1) as number;
  for (const seq of new Set([newest, ...single])) {
    const at = (h: History<unknown>): number => h.versions.findIndex((version) => version.seq === seq);
    yield { name: `only step ${seq} is there`, choose: (h) => Math.max(0, at(h)) };
    yield { name: `only step ${seq} is lost`, choose: (h) => (at(h) > 0 ? at(h) - 1 : last(h)) };
  }
  for (let i = 0; i < chance; i++) {
    const share = random();
    yield {
      name: `chance ${i}`,
      choose: (h) => (random() < share ? Math.floor(random() * h.versions.length) : last(h)),
    };
  }
}

const pick = (from: readonly number[], random: Random, count: number): number[] =>
  Array.from({ length: count }, () => from[Math.floor(random() * from.length)] as number);

/** Writes the state into an empty folder. */
export function materialize(disk: Disk, { choose }: State, target: string): void {
  const chosen = new Map<History<unknown>, number>();
  for (const [history, kind] of disk.open) chosen.set(history, choose(history, kind));
  // A name that a rename took away is gone only where the new one is there.
  for (let again = true; again;) {
    again = false;
    for (const [history, index] of chosen) {
      for (const { needs } of history.versions.slice(1, index + 1)) {
        if (needs === undefined) continue;
        const least = needs.history.upTo(needs.seq);
        if ((chosen.get(needs.history) ?? Infinity) >= least) continue;
        chosen.set(needs.history, least);
        again = true;
      }
    }
  }
  const valueOf = <T>(history: History<T>): T =>
    (history.versions[chosen.get(history as History<unknown>) ?? 0] as { readonly value: T }).value;

  function write(node: Node, path: string): void {
    if ("entries" in node) {
      mkdirSync(path, { mode: 0o700, recursive: true });
      for (const [name, history] of (node satisfies Folder).entries) {
        const inner = valueOf(history);
        if (inner !== undefined) write(inner, join(path, name));
      }
      return;
    }
    const bytes = Buffer.alloc(valueOf(node.size));
    for (const [sector, history] of node.sectors) {
      if (sector * SECTOR < bytes.length) valueOf(history).copy(bytes, sector * SECTOR);
    }
    writeFileSync(path, bytes, { mode: 0o600 });
  }
  write(disk.root, target);
}
