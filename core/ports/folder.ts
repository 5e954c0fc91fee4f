/** Folders that survive a power cut, for everything that keeps files of its own. */
import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, realpathSync } from "node:fs";
import { dirname } from "node:path";

/** Makes durable what a folder lists: names that were made, moved or removed in it. Folders cannot be synced on Windows. */
export function syncFolder(path: string): void {
  if (process.platform === "win32") return;
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Makes the folder, and those above it that are missing, mode 0700. No power cut takes it away after this returns: a new
 * folder is durable once the folder above it is synced. An earlier run may have died before that, so the same is done for
 * a folder that is still empty, and on upwards as long as a folder holds nothing else.
 * @throws Error as of `mkdirSync`, and of a sync of what it made
 */
export function makeDurableFolder(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 });
  const top = first === undefined ? undefined : realpathSync(first);
  let at = realpathSync(path);
  if (top === undefined && readdirSync(at).length > 0) return;
  for (let made = top !== undefined, above = dirname(at); above !== at; at = above, above = dirname(at)) {
    try {
      syncFolder(above);
      if (at === top) made = false;
      else if (!made && readdirSync(above).length > 1) return;
    } catch (error) {
      if (made) throw error;
      // A folder of somebody else, which we may not open, is not one that an earlier run made.
      return;
    }
  }
}
