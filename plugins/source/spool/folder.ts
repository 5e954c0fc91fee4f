/** Lists the spool's folders, and moves files so that a power cut loses none. */
import { hash } from "node:crypto";
import { constants } from "node:fs";
import { link, lstat, mkdir, open, readdir, rename, unlink, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { makeDurableFolder } from "../../../core/ports/folder.ts";

export interface Folder {
  readonly dir: string;
  readonly done: string;
  readonly rejected: string;
}

/** @throws Error when one of the folders cannot be made, or is not a folder */
export async function makeSpoolFolders(dir: string): Promise<Folder> {
  const folder = { dir, done: join(dir, "done"), rejected: join(dir, "rejected") };
  makeDurableFolder(dir);
  for (const inner of [folder.done, folder.rejected]) {
    await mkdir(inner, { recursive: true, mode: 0o700 });
    if (!(await lstat(inner)).isDirectory()) throw new Error(`${inner} is not a real folder`);
  }
  await syncFolder(dir);
  return folder;
}

/** Writers hide a file until it is complete: behind a leading dot, `.tmp` or `.part`, and then rename it. */
const isReady = (name: string): boolean => !name.startsWith(".") && !name.endsWith(".tmp") && !name.endsWith(".part");

interface Listing {
  /** Names of plain files that are complete, in order. */
  readonly ready: readonly string[];
  /** Names that are skipped because they are links, pipes or devices. */
  readonly odd: readonly string[];
}

export async function list({ dir }: Folder): Promise<Listing> {
  const entries = (await readdir(dir, { withFileTypes: true })).filter(({ name }) => isReady(name));
  const names = (wanted: (entry: (typeof entries)[number]) => boolean): readonly string[] =>
    entries
      .filter(wanted)
      .map(({ name }) => name)
      .toSorted();
  return { ready: names((entry) => entry.isFile()), odd: names((entry) => !entry.isFile() && !entry.isDirectory()) };
}

/** A file as it was when it was opened. */
export interface TakenFile {
  readonly name: string;
  readonly inode: string;
  readonly bytes: number;
}

export interface OpenedSpool extends AsyncDisposable {
  readonly file: FileHandle;
  readonly taken: TakenFile;
  /** Stays the same while nobody changes the file, over restarts too. */
  readonly identity: string;
  /** Epoch ms of its last change. */
  readonly changedAt: number;
  /** False once the file was written to after it was opened. */
  unchanged(): Promise<boolean>;
}

/** Returns `undefined` when it is gone, or is no longer a plain file. */
export async function openPlain({ dir }: Folder, name: string): Promise<OpenedSpool | undefined> {
  let file: FileHandle;
  try {
    // Follows no link, and does not wait for the other end of a pipe.
    file = await open(join(dir, name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (["ENOENT", "ELOOP", "ENXIO"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
  let changedAt = 0;
  let taken: TakenFile | undefined;
  const inspect = async (): Promise<string | undefined> => {
    const stat = await file.stat({ bigint: true });
    changedAt = Number(stat.mtimeMs);
    taken ??= { name, inode: String(stat.ino), bytes: Number(stat.size) };
    return stat.isFile() ? `${stat.ino} ${stat.size} ${stat.mtimeNs}` : undefined;
  };
  const before = await inspect();
  if (before === undefined || taken === undefined) {
    await file.close();
    return undefined;
  }
  return {
    file,
    taken,
    identity: hash("sha256", `${name}\n${before}`, "hex"),
    changedAt,
    unchanged: async () => (await inspect()) === before,
    [Symbol.asyncDispose]: () => file.close(),
  };
}

/** Ends the hidden name of a file while it is moved. */
const MOVING = ".relaybox-moving";

/**
 * Moves a file to another folder, under a name that is free there. It first gets a hidden name, under which no writer can
 * replace it: one that a writer dropped under the same name meanwhile was not read, and gets its name back.
 * @returns false when there was such a one, so that the file itself is gone
 */
export async function moveTo(folder: Folder, { name, inode }: TakenFile, target: string): Promise<boolean> {
  const hidden = join(folder.dir, `.${shortName(name)}${MOVING}`);
  await rename(join(folder.dir, name), hidden);
  if ((await inodeOf(hidden)) !== inode) {
    await putBack(folder);
    return false;
  }
  await rename(hidden, join(target, await freeName(target, name)));
  // The new place first: after a power cut the file may be in both, never in neither.
  await syncFolder(target);
  await syncFolder(folder.dir);
  return true;
}

/** Gives files that still have the hidden name of a move their names back. One that was read makes no event. */
export async function putBack({ dir }: Folder): Promise<void> {
  for (const hidden of await readdir(dir)) {
    if (!hidden.startsWith(".") || !hidden.endsWith(MOVING)) continue;
    const [from, name] = [join(dir, hidden), hidden.slice(1, -MOVING.length)];
    // After a crash in here the file may have both names.
    if ((await inodeOf(from)) !== (await inodeOf(join(dir, name)))) {
      try {
        // Unlike a rename, it replaces no file that a writer drops at this moment.
        await link(from, join(dir, await freeName(dir, name)));
      } catch {
        // Not every file system has hard links.
        await rename(from, join(dir, await freeName(dir, name)));
        continue;
      }
    }
    await unlink(from);
  }
}

/** Moves a file to `rejected/` together with a report. The report comes first: a rejected file is never without one. */
export async function moveRejected(folder: Folder, taken: TakenFile, report: unknown): Promise<boolean> {
  const { rejected } = folder;
  const { name } = taken;
  const free = await freeName(rejected, name);
  const hidden = join(rejected, `.${free}.tmp`);
  await using file = await open(hidden, "w", 0o600);
  await file.writeFile(`${JSON.stringify(report, undefined, 2)}\n`);
  await file.sync();
  await rename(hidden, join(rejected, `${free}.errors.json`));
  await syncFolder(rejected);
  return await moveTo(folder, taken, rejected);
}

/**
 * Copies what a writer appended after the bytes that were read to a complete file of its own in the folder. Its name
 * contains the file it belongs to, so doing it twice makes one file. @returns its name; `undefined` when there is
 * nothing, or it exists
 */
export async function dropRest(
  folder: Folder,
  { name, inode, bytes }: TakenFile,
  from: FileHandle,
): Promise<string | undefined> {
  const { size } = await from.stat();
  if (size <= bytes) return undefined;
  const which = hash("sha256", `${name}\n${inode}\n${bytes}`, "hex").slice(0, 16);
  const rest = `${shortName(name.slice(0, 100))}.${which}.rest`;
  for (const place of [folder.dir, folder.done, folder.rejected])
    if (await isThere(join(place, rest))) return undefined;
  const hidden = join(folder.dir, `.${rest}.tmp`);
  await using file = await open(hidden, "w", 0o600);
  // The late newline of the last line that was read is not a line.
  let at = bytes > 0 && !(await startsLine(from, bytes)) ? bytes + 1 : bytes;
  while (at < size) {
    const { bytesRead, buffer } = await from.read(Buffer.allocUnsafe(CHUNK), 0, Math.min(CHUNK, size - at), at);
    if (bytesRead === 0) break;
    await file.writeFile(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
  await file.sync();
  await rename(hidden, join(folder.dir, rest));
  await syncFolder(folder.dir);
  return rest;
}

const CHUNK = 256 * 1024;
const NEWLINE = 10;

/** False when the byte there is the newline of the line before. */
async function startsLine(file: FileHandle, at: number): Promise<boolean> {
  const { buffer } = await file.read(Buffer.alloc(2), 0, 2, at - 1);
  return buffer[0] === NEWLINE || buffer[1] !== NEWLINE;
}

/** Opens a file that was moved to `done/`; `undefined` when it is no longer there. */
export async function openDone({ done }: Folder, { name, inode }: TakenFile): Promise<FileHandle | undefined> {
  const short = shortName(name);
  for (const candidate of await readdir(done)) {
    if (candidate !== short && !candidate.startsWith(`${short}.`)) continue;
    const path = join(done, candidate);
    if ((await inodeOf(path)) !== inode) continue;
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  }
  return undefined;
}

/** Leaves room for `.errors.json` and the like in a name of at most 255 bytes. */
const LONGEST_NAME = 200;

/** The name of a file, or a shorter one that no other file has: for a name that gets an ending. */
const shortName = (name: string): string =>
  Buffer.byteLength(name) <= LONGEST_NAME ? name : `${name.slice(0, 40)}-${hash("sha256", name, "hex").slice(0, 16)}`;

/** Returns a name for a file in another folder that is free there: its own, or one with a number. */
async function freeName(target: string, name: string): Promise<string> {
  const short = shortName(name);
  const nameAt = (i: number): string => (i === 0 ? short : `${short}.${i}`);
  const isTaken = (i: number): Promise<boolean> => isThere(join(target, nameAt(i)));
  if (!(await isTaken(0))) return short;
  // By doubling and halving: a writer may give each of its files the same name, for years.
  let free = 1;
  while (await isTaken(free)) free *= 2;
  for (let taken = free >> 1; free - taken > 1;) {
    const middle = (taken + free) >> 1;
    if (await isTaken(middle)) taken = middle;
    else free = middle;
  }
  return nameAt(free);
}

const isThere = async (path: string): Promise<boolean> => (await inodeOf(path)) !== undefined;

/** Returns `undefined` where there is nothing. */
async function inodeOf(path: string): Promise<string | undefined> {
  try {
    return String((await lstat(path, { bigint: true })).ino);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  await folder.sync();
}
