/** A storage's recorded life, and the opening of what a power cut left of it. */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { openReader } from "../../plugins/storage/sqlite/reader.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { quietLog } from "../support/quiet.ts";
import type { StorageName } from "../support/storage-child.ts";
import { Disk } from "./disk.ts";
import { openStorage } from "./open.ts";
import { Oracle } from "./oracle.ts";
import { record } from "./record.ts";
import { cutPower, type Cutting, type Outcome } from "./replay.ts";
import type { ScriptName } from "./scripts.ts";
import type { Step } from "./trace.ts";

const CHILD = join(import.meta.dirname, "child.ts");
/** Log lines that a power cut alone must never cause. */
const ALARMS = [
  "a damaged record",
  "a record in the wrong folder",
  "a damaged line of the journal: a commit may be lost",
];

/** A life, or several of the same folder, one after the other. */
export interface Part {
  readonly script: ScriptName;
  /** Faults to inject; a kill among them ends this part. */
  readonly inject?: readonly string[];
}

export interface Life {
  readonly storage: StorageName;
  readonly scratch: string;
  readonly parts: readonly { readonly script: ScriptName; readonly steps: readonly Step[] }[];
}

/** The storage stands two folders deep, and makes both. */
const placed = (root: string): string => join(root, "made", "here");
const rootIn = (scratch: string): string => join(scratch, "life");

/** Plays scripts in a fresh folder and records what they do. */
export async function recordLife(storage: StorageName, scratch: string, ...parts: readonly Part[]): Promise<Life> {
  const root = rootIn(scratch);
  mkdirSync(root, { mode: 0o700 });
  const recorded = [];
  for (const { script, inject } of parts) {
    const args = [CHILD, storage, placed(root), script];
    recorded.push({ script, steps: await record({ trace: join(scratch, "trace"), args, inject }) });
  }
  rmSync(root, { recursive: true });
  return { storage, scratch, parts: recorded };
}

/** Cuts the power at many moments of the life; everything acknowledged must be found, nothing refused, and no half. */
export async function cutLife({ storage, scratch, parts }: Life, more: Partial<Cutting> = {}): Promise<Outcome> {
  const root = rootIn(scratch);
  mkdirSync(root, { mode: 0o700 });
  const disk = new Disk(root);
  let oracle: Oracle | undefined;
  let states = 0;
  let judged = 0;
  const wrong: string[] = [];
  for (const { script, steps } of parts) {
    if (oracle === undefined) oracle = new Oracle(script);
    else oracle.next(script);
    disk.died();
    const own = oracle;
    const outcome = await cutPower({
      disk,
      steps,
      scratch,
      hear: (line) => own.hear(line),
      judge: async (folder) => {
        const { rows, alarms } = await readRows(storage, placed(folder), judged++ % WHOLE === 0);
        return alarms[0] ?? own.judge(rows);
      },
      ...more,
    });
    states += outcome.states;
    wrong.push(...outcome.wrong);
  }
  rmSync(root, { recursive: true });
  return { states, wrong };
}

interface Found {
  readonly rows: ReadonlyMap<string, string>;
  /** Those lines of the log that a power cut must not cause. */
  readonly alarms: readonly string[];
}

/** sqlite()'s reader alone is fifty times as fast as its thread, and sees the same: every so many states have the thread too. */
const WHOLE = 16;

/** Opens the folder with the real driver and reads all of it. */
async function readRows(storage: StorageName, dir: string, whole: boolean): Promise<Found> {
  if (storage === "sqlite" && !whole) {
    const rows = await readDatabase(join(dir, "relay.db"));
    if (rows !== undefined) return { rows, alarms: [] };
  }
  const log = quietLog();
  const opened = await openStorage(storage, dir, pluginContext(testClock(), dir, { log }));
  try {
    const rows = new Map<string, string>();
    for (let after: string | undefined; ;) {
      const page = await opened.range("", { after, limit: PAGE });
      for (const { key, value } of page) rows.set(key, value);
      if (page.length < PAGE) break;
      after = page.at(-1)?.key;
    }
    // Whoever asks for one key must find what the list shows.
    const values = await opened.getMany([...rows.keys()]);
    const unlike = [...rows]
      .filter(([, value], index) => values[index] !== value)
      .map(([key]) => `${key} reads otherwise`);
    const damage = (await opened.verify?.()) ?? [];
    const said = log.lines.map(({ fields }) => String(fields["why"])).filter((why) => ALARMS.includes(why));
    return { rows, alarms: [...said, ...unlike, ...damage] };
  } finally {
    await opened.dispose();
  }
}

const PAGE = 5_000;

/** `undefined` where there is no database yet, which is the thread's to make. */
export async function readDatabase(path: string): Promise<ReadonlyMap<string, string> | undefined> {
  const reader = await openReader(path, 512).catch(() => undefined);
  if (reader === undefined) return undefined;
  try {
    const damage = reader.verify();
    if (damage.length > 0) throw new Error(damage.join(", "));
    return new Map(reader.range("", { limit: PAGE }).map(({ key, value }) => [key, value]));
  } finally {
    reader.close();
  }
}
