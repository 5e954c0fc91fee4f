/** Accesses the disk for plain files: what is written is synced, and no link is followed. */
import { constants } from "node:fs";
import { type FileHandle, open, rename, unlink } from "node:fs/promises";
import { StorageError } from "../../../core/model/errors.ts";

const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

export const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException | undefined)?.code;

export const unlessMissing = (error: unknown): undefined => {
  if (codeOf(error) !== "ENOENT") throw error;
};

/** Translates a failed call to a storage error. */
export function fault(error: unknown, doing: string): StorageError {
  if (error instanceof StorageError) return error;
  const code = codeOf(error);
  const full = code === "ENOSPC" || code === "EDQUOT" || code === "EFBIG";
  return new StorageError(full ? "full" : "unavailable", `${doing}: ${code ?? "failed"}`, { cause: error });
}

export const createFile = (path: string): Promise<FileHandle> => open(path, CREATE, 0o600);

export async function writeAll(handle: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let at = 0; at < bytes.length;)
    at += (await handle.write(bytes, at, bytes.length - at, position + at)).bytesWritten;
}

/** Writes and syncs a new file, then moves it into place: readers see all or nothing. Does not sync the folder. */
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

/** Returns the text of a regular file; `undefined` without one, empty for a link or a folder. @throws StorageError */
export async function readRegular(path: string): Promise<string | undefined> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    return await handle.readFile("utf8");
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT") return undefined;
    if (code === "ELOOP" || code === "EISDIR") return "";
    throw fault(error, "reading a record");
  } finally {
    await handle?.close();
  }
}

/** Items worked on at once: the thread pool has four threads, and a disk works better with a few requests to sort. */
const AT_ONCE = 16;

/** Waits for everything that was begun, even when some of it fails. @throws the first failure */
export async function pool<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  let at = 0;
  const workers = Array.from({ length: Math.min(AT_ONCE, items.length) }, async () => {
    while (at < items.length) await work(items[at++] as T);
  });
  const ended = await Promise.allSettled(workers);
  for (const end of ended) if (end.status === "rejected") throw end.reason;
}
