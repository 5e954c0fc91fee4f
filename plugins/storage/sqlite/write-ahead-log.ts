/** Repairs the write-ahead log that an earlier process left behind, before SQLite reads it. */
import { open } from "node:fs/promises";
import { StorageError } from "../../../core/model/errors.ts";

const CHUNK = 1 << 20;

/**
 * Rewrites the log with its own bytes and syncs it. A commit whose sync failed may be complete in the page cache but
 * not on the disk: SQLite would take it for committed and copy it into the database, and a power cut before the log is
 * emptied would then leave an older log over a newer database, which is half a commit or a damaged file.
 * @throws StorageError `unavailable` when it cannot be read or written; a full disk is no fault here
 */
export async function rewriteLog(path: string): Promise<void> {
  try {
    const file = await open(path, "r+");
    try {
      const buffer = Buffer.allocUnsafe(CHUNK);
      for (let at = 0; ;) {
        const { bytesRead } = await file.read(buffer, 0, CHUNK, at);
        if (bytesRead === 0) break;
        for (let done = 0; done < bytesRead;) {
          const { bytesWritten } = await file.write(buffer, done, bytesRead - done, at + done);
          done += bytesWritten;
        }
        at += bytesRead;
      }
      await file.sync();
    } finally {
      await file.close();
    }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "failed";
    if (code === "ENOENT" || code === "ENOSPC" || code === "EDQUOT") return;
    throw new StorageError("unavailable", `sqlite: the log cannot be synced: ${code}`, { cause: error });
  }
}
