/** Reads the free space of the disk that holds a folder. */
import { statfs } from "node:fs/promises";
import type { StorageSpace } from "../../../core/ports/storage.ts";

/** Returns what a process without privileges may still write there, and the size of the whole disk. */
export async function diskRoom(folder: string): Promise<StorageSpace> {
  const { bavail, blocks, bsize } = await statfs(folder);
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
}
