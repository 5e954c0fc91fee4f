/** Repairs a file that an earlier process may have failed to sync. */
import { constants } from "node:fs";
import { open } from "node:fs/promises";

const CHUNK = 1 << 20;

/** Rewrites a file with its own bytes and syncs it: after a failed sync, the page cache shows what the disk does not have. */
export async function rewriteFile(path: string): Promise<void> {
  const file = await open(path, constants.O_RDWR | constants.O_NOFOLLOW);
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
}
