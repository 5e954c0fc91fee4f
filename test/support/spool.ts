/** A spool over a folder of its own, with signals for what becomes of the files dropped into it. */
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "vitest";
import type { Metrics, PluginContext } from "../../core/ports/plugin.ts";
import type { Accept, Source } from "../../core/ports/source.ts";
import { spool } from "../../plugins/source/spool.ts";
import { testClock, type TestClock } from "./clock.ts";
import { context } from "./context.ts";
import { desk, paid, type Desk } from "./intake.ts";
import { quietLog, quietMetrics } from "./quiet.ts";
import { shelf } from "./shelf.ts";

const folders: string[] = [];
/** A fresh folder, removed after the test. */
export async function folder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "spool-"));
  folders.push(dir);
  return dir;
}
afterEach(async () => {
  for (const dir of folders.splice(0)) await rm(dir, { recursive: true, force: true });
});

export type Fate = "stored" | "refused" | "waits";

export interface SpoolBench {
  readonly dir: string;
  readonly source: Source;
  readonly clock: TestClock;
  /** The store of the spool itself. */
  readonly storage: ReturnType<typeof shelf>;
  readonly log: ReturnType<typeof quietLog>;
  /** Drops a complete file, as a writer should. */
  drop(name: string, text: string | Uint8Array): Promise<void>;
  /** Resolves to the fate of the next file that has one. */
  next(): Promise<Fate>;
}

export async function spoolBench(
  given: { readonly dir?: string; readonly storage?: ReturnType<typeof shelf> } = {},
): Promise<SpoolBench> {
  const dir = given.dir ?? (await folder());
  const log = quietLog();
  const storage = given.storage ?? shelf();
  const clock = testClock();
  const fates: Fate[] = [];
  const waiting: ((fate: Fate) => void)[] = [];
  const tell = (fate: Fate): void => {
    const first = waiting.shift();
    if (first === undefined) fates.push(fate);
    else first(fate);
  };
  const metrics: Metrics = {
    ...quietMetrics(),
    count: (name, labels) => name === "spool_files" && tell(labels?.["result"] as "stored" | "refused"),
  };
  const warn: typeof log.warn = (message, fields) => {
    log.lines.push({ level: "warn", message, fields: fields ?? {} });
    if (message === "a spool file waits") tell("waits");
  };
  const ctx: PluginContext = context({ clock, log: { ...log, warn }, metrics, storage, configDir: dir });
  const source = await spool({ dir }).setup(ctx);
  return {
    dir,
    source,
    clock,
    storage,
    log,
    async drop(name, text) {
      await writeFile(join(dir, `.${name}`), text);
      await rename(join(dir, `.${name}`), join(dir, name));
    },
    next: () => {
      const first = fates.shift();
      return first === undefined ? new Promise((resolve) => void waiting.push(resolve)) : Promise.resolve(first);
    },
  };
}

/** A spool that has taken files in and is stopped, and the desk that stored them. */
export interface SpoolLife extends SpoolBench {
  readonly intake: Desk;
  readonly fates: readonly Fate[];
}

interface LifeOptions {
  readonly dir?: string;
  readonly storage?: ReturnType<typeof shelf>;
  readonly intake?: Desk;
  /** As many fates as are waited for. @default one of each file */
  readonly fates?: number;
  /** In place of the desk's own. */
  readonly accept?: Accept;
}

/** Drops the files, starts a spool, waits for their fates, and stops it. */
export async function life(
  files: Readonly<Record<string, string | Uint8Array>>,
  given: LifeOptions = {},
): Promise<SpoolLife> {
  const made = await spoolBench(given);
  const { intake = desk(), fates: count = Object.keys(files).length, accept = intake.intake.accept } = given;
  for (const [name, text] of Object.entries(files)) await made.drop(name, text);
  await made.source.start(accept, info);
  const fates: Fate[] = [];
  while (fates.length < count) fates.push(await made.next());
  if (count === 0) await made.clock.whenSleeping();
  await made.source.stop();
  return { ...made, intake, fates };
}

export const info = { durability: "fsync" } as const;
export const lines = (count: number, over: (i: number) => Record<string, unknown> = () => ({})): string =>
  Array.from({ length: count }, (_, i) => `${JSON.stringify(paid({ data: i, ...over(i) }))}\n`).join("");
export const filesIn = async (...path: string[]): Promise<string[]> => (await readdir(join(...path))).toSorted();
export const stored = (made: Desk): string[] => [...made.shelf.rows.keys()].filter((key) => key.startsWith("event:"));

export interface Report {
  readonly stored: readonly (readonly [number, number])[];
  readonly errors: readonly {
    readonly line?: number;
    readonly field?: string;
    readonly code: string;
    readonly message: string;
  }[];
  readonly more: number;
}
export const report = async (dir: string, name: string): Promise<Report> =>
  JSON.parse(await readFile(join(dir, "rejected", `${name}.errors.json`), "utf8")) as Report;
