/** Opens a folder, and repairs what an earlier run left behind before any read. */
import { chmodSync, lstatSync, readFileSync, readdirSync, realpathSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { StartError, StorageError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { makeDurableFolder } from "../../../core/ports/folder.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import { PRIVATE_FOLDER, codeOf, makeFolder, replaceFile, syncFolder } from "./disk.ts";
import { Files } from "./files.ts";
import { Journal } from "./journal.ts";
import { Overlay } from "./overlay.ts";
import { Quarantine } from "./quarantine.ts";
import { Store } from "./store.ts";

/** Grows when the layout of the folder changes. */
const FORMAT = 1;

export interface OpenedStore {
  readonly store: Store;
  readonly files: Files;
  readonly journal: Journal;
  readonly quarantine: Quarantine;
}

/** Makes the folder itself, which must exist before its lock can be taken. @throws StartError */
export function prepareFolder(dir: string, log: Log): string {
  try {
    makeDurableFolder(dir);
    const path = realpathSync(dir);
    if ((statSync(path).mode & 0o077) !== 0) {
      chmodSync(path, PRIVATE_FOLDER);
      log.warn("the storage folder was open to other users; its mode is 0700 now", { path });
    }
    return path;
  } catch (error) {
    throw new StartError(78, `the storage folder ${dir} cannot be used: ${codeOf(error) ?? String(error)}`, {
      cause: error,
    });
  }
}

/** @throws StartError when the folder was made by a newer version or is no folder of this storage */
export async function openFolder(dir: string, clock: Clock, log: Log, perFolder: number): Promise<OpenedStore> {
  const place = {
    records: join(dir, "records"),
    journal: join(dir, "journal"),
    temporary: join(dir, "tmp"),
    quarantine: join(dir, "quarantine"),
  };
  for (const path of Object.values(place)) await ownFolder(path);
  clear(place.temporary);
  await checkFormat(dir, place.temporary);
  await syncFolder(dir);

  const quarantine = new Quarantine(place.quarantine, log, clock.now());
  const overlay = new Overlay();
  const journal = new Journal(place.journal);
  const files: Files = new Files({
    records: place.records,
    temporary: place.temporary,
    foreign: quarantine.move,
    noteSplit: (from) => store.noteSplit(from),
    isPending: (key) => overlay.get(key) !== undefined,
    perFolder,
  });
  const store: Store = new Store({ journal, files, overlay, clock, log });
  try {
    await files.leaves.open();
    await replay(place.journal, journal, files, overlay, quarantine);
    await store.apply().catch((error: unknown) => {
      // Even on a full disk there is much to read and deliver: the journal keeps what the files lack, and a later turn tries again.
      if (!(error instanceof StorageError && error.fault === "full")) throw error;
    });
  } catch (error) {
    // Otherwise it would try again by itself, in a folder that is not locked any more.
    await store.abandon();
    throw error;
  }
  return { store, files, journal, quarantine };
}

async function replay(
  dir: string,
  journal: Journal,
  files: Files,
  overlay: Overlay,
  quarantine: Quarantine,
): Promise<void> {
  const { lines, damaged, foreign } = await journal.replay();
  for (const name of foreign) quarantine.move(join(dir, name), "not a file of the journal");
  for (const { path, text, middle } of damaged) {
    const why = middle
      ? "a damaged line of the journal: a commit may be lost"
      : "the torn end of the journal, never acknowledged";
    quarantine.copy(path, text, why);
  }
  for (const write of lines.flatMap(({ writes }) => writes)) {
    if ("split" in write) await files.resplit(write.split);
    else overlay.set(write[0], write[1]);
  }
}

/** A folder of ours is a real folder, not a link, and accessible only to us. */
async function ownFolder(path: string): Promise<void> {
  await makeFolder(path);
  const stat = lstatSync(path);
  if (!stat.isDirectory()) throw new StartError(78, `${path} must be a folder, not a link or a file`);
  if ((stat.mode & 0o077) !== 0) chmodSync(path, PRIVATE_FOLDER);
}

/** Deletes files that were being written when the process died; the journal has their content. */
function clear(temporary: string): void {
  for (const name of readdirSync(temporary)) rmSync(join(temporary, name), { recursive: true, force: true });
}

async function checkFormat(dir: string, temporary: string): Promise<void> {
  const path = join(dir, "format.json");
  let text: string | undefined;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
  if (text === undefined)
    return replaceFile(
      join(temporary, "format"),
      path,
      `${JSON.stringify({ storage: "filesystem", format: FORMAT })}\n`,
    );
  let format: unknown;
  try {
    format = (JSON.parse(text) as { format?: unknown }).format;
  } catch {
    format = undefined;
  }
  if (format !== FORMAT)
    throw new StartError(78, `${path} names a format that this version cannot read (${String(format)})`);
}
