/** The commits of the recorded process, known to the test as well, so that it can say what must be found afterwards. */
import type { Change } from "../../core/ports/storage.ts";

/** "idle": wait until the storage has nothing left to do behind the commits. */
export type Deed = readonly Change[] | "idle";

export interface Script {
  /** Each writer's deeds, one after the other; no two writers share a key. */
  readonly writers: readonly (readonly Deed[])[];
}

const put = (key: string, value: string): Change => ({ op: "put", key, value });
const remove = (key: string): Change => ({ op: "delete", key });
const number = (n: number): string => String(n).padStart(6, "0");
const fill = (n: number, length: number): string => `${n}`.padEnd(length, "abcdefghijklmnop");

/** Sizes around those of sectors and pages. */
const SIZES = [10, 600, 90, 5_000, 300, 12_000, 40, 1_500];

/** A state that changes in several rows at once, and a log of which the newest rows are kept. */
function steady(writer: number, commits: number, idleEvery: number, from = 0): readonly Deed[] {
  const deeds: Deed[] = [];
  for (let n = from; n < from + commits; n++) {
    const changes = [
      put(`due:${writer}:now`, number(n)),
      put(`subscription:${writer}:now`, fill(n, SIZES[(n + writer) % SIZES.length] as number)),
      put(`event:${writer}:${number(n)}`, fill(n, SIZES[(n * 3 + writer) % SIZES.length] as number)),
    ];
    if (n >= from + 4) changes.push(remove(`event:${writer}:${number(n - 4)}`));
    deeds.push(changes);
    if (n % idleEvery === idleEvery - 1) deeds.push("idle");
  }
  return deeds;
}

/** Far from any order. */
const shuffled = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => `type:${number((i * 7_919) % count)}`);
const all = (keys: readonly string[], value = "v"): readonly Change[] => keys.map((key) => put(key, `${value} ${key}`));
const events = (from: number, to: number): readonly string[] =>
  Array.from({ length: to - from }, (_, i) => `event:k:${number(from + i)}`);

/** Keys far from any order, some of them written again. */
const outOfOrder: readonly Deed[] = [
  ...[0, 5, 9, 14, 22].flatMap((from, i, list): Deed[] => [all(shuffled(31).slice(from, list[i + 1])), "idle"]),
  all(shuffled(31).slice(3, 6), "changed"),
  "idle",
];
/** Records of which most go again; then more come. */
const goAgain: readonly Deed[] = [
  all(events(0, 12)),
  "idle",
  [...events(4, 12).map(remove)],
  "idle",
  all(events(12, 14)),
  "idle",
  all(events(14, 15)),
  "idle",
];

export const SCRIPTS = {
  steady: { writers: [steady(0, 14, 5), steady(1, 14, 7), steady(2, 14, 20)] },
  folders: { writers: [outOfOrder, goAgain] },
  /** The same rows, after another life. */
  again: { writers: [steady(0, 8, 3, 100), steady(1, 8, 20, 100), steady(2, 8, 20, 100)] },
  /** A commit of a table alone, then one of two tables. */
  apart: {
    writers: [
      [
        [put("due:0:now", "000001")],
        [put("due:0:now", "000002"), put("subscription:0:now", fill(2, 600)), put("event:0:000002", fill(2, 90))],
      ],
    ],
  },
} as const satisfies Readonly<Record<string, Script>>;

export type ScriptName = keyof typeof SCRIPTS;

/** Rows after the changes. */
export function applied(rows: ReadonlyMap<string, string>, changes: readonly Change[]): ReadonlyMap<string, string> {
  const after = new Map(rows);
  for (const change of changes) {
    if (change.op === "put") after.set(change.key, change.value);
    else if (change.op === "delete") after.delete(change.key);
  }
  return after;
}
