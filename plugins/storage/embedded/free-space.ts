/** Space on the disk that a folder stands on. */
import { statfs } from "node:fs/promises";
import type { StorageSpace } from "../../../core/ports/storage.ts";

/** What a process without privileges may still write there, and the size of the whole. */
export async function diskRoom(folder: string): Promise<StorageSpace> {
  const { bavail, blocks, bsize } = await statfs(folder);
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
}
