/** Accesses the disk for this storage: everything written is synced, and no link is followed. */
import { constants } from "node:fs";
import { mkdir, open, rename, unlink } from "node:fs/promises";
import { StorageError, type StorageFault } from "../../../core/model/errors.ts";

export const PRIVATE_FILE = 0o600;
export const PRIVATE_FOLDER = 0o700;
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const READ = constants.O_RDONLY | constants.O_NOFOLLOW;

export const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException | undefined)?.code;

/** Translates a failed call to a storage error. */
export function fault(error: unknown, doing: string, otherwise: StorageFault = "unavailable"): StorageError {
  if (error instanceof StorageError) return error;
  const code = codeOf(error);
  const full = code === "ENOSPC" || code === "EDQUOT" || code === "EFBIG";
  return new StorageError(full ? "full" : otherwise, `${doing}: ${code ?? "failed"}`, { cause: error });
}

/** Syncs a folder, so that its list of names is durable. */
export async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Makes the folder, mode 0700, if it is missing; returns whether it did. The caller then syncs the parent. */
export async function makeFolder(path: string): Promise<boolean> {
  try {
    await mkdir(path, { mode: PRIVATE_FOLDER });
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
}

export const createFile = (path: string) => open(path, CREATE, PRIVATE_FILE);

/**
 * Writes a new file next to the old one, syncs it and moves it into place, so that readers see all of it or nothing.
 * Does not sync the folder.
 */
export async function replaceFile(temporary: string, path: string, text: string): Promise<void> {
  const handle = await createFile(temporary);
  try {
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
  } catch (error) {
    // On a full disk a half-written file must not stay in the way.
    await unlink(temporary).catch(() => {});
    throw error;
  }
}

/** Rewrites a file with its own bytes and syncs it: after a failed sync, the page cache shows what the disk does not have. */
export async function rewriteFile(path: string, bytes: Uint8Array): Promise<void> {
  const handle = await open(path, constants.O_WRONLY | constants.O_NOFOLLOW);
  try {
    for (let at = 0; at < bytes.length;) {
      const { bytesWritten } = await handle.write(bytes, at, bytes.length - at, at);
      at += bytesWritten;
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Returns the text of a regular file; `undefined` without one. A link (ELOOP) or anything else is an error. */
export async function readRegular(path: string): Promise<string | undefined> {
  let handle;
  try {
    handle = await open(path, READ | constants.O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
  try {
    return await handle.readFile("utf8");
  } finally {
    await handle.close();
  }
}
