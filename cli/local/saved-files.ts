/** Tells which JSON files of a folder are saved: each save once, when the file is whole. */
import { watch } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../core/ports/clock.ts";

export interface SavedFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** An editor writes a file in several steps. */
const SETTLE_MS = 150;

/**
 * Resolves once the folder is watched. Yields the files that are saved from then on, until the signal aborts. The generator
 * throws the error when the folder is removed.
 * @throws Error when the folder cannot be read
 */
export async function savedFiles(
  folder: string,
  clock: Clock,
  signal: AbortSignal,
): Promise<AsyncGenerator<SavedFile, void>> {
  let changed = expectation();
  const watcher = watch(folder, () => changed.resolve());
  watcher.on("error", (error) => changed.reject(error));
  const end = (): void => {
    watcher.close();
    changed.resolve();
  };
  signal.addEventListener("abort", end, { once: true });
  let known = await marksOf(folder);

  async function* saves(): AsyncGenerator<SavedFile, void> {
    while (!signal.aborted) {
      await changed.promise;
      changed = expectation();
      await clock.sleep(clock.now() + SETTLE_MS, signal).catch(() => undefined);
      if (signal.aborted) return;
      const marks = await marksOf(folder);
      const saved = [...marks].filter(([name, mark]) => known.get(name) !== mark).map(([name]) => name);
      known = marks;
      for (const name of saved) {
        const bytes = await readFile(join(folder, name)).catch(() => undefined);
        // Removed or renamed meanwhile.
        if (bytes !== undefined) yield { name, bytes };
      }
    }
  }
  return saves();
}

/** A promise to be settled from outside, whose rejection may come before anybody waits for it. */
function expectation(): PromiseWithResolvers<void> {
  const made = Promise.withResolvers<void>();
  made.promise.catch(() => undefined);
  return made;
}

/** The time and size of each JSON file: a save changes one of them. */
async function marksOf(folder: string): Promise<ReadonlyMap<string, string>> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".json") && !name.startsWith("."));
  const marks = new Map<string, string>();
  for (const name of names) {
    const found = await stat(join(folder, name)).catch(() => undefined);
    if (found?.isFile() === true) marks.set(name, `${found.mtimeMs} ${found.size}`);
  }
  return marks;
}
