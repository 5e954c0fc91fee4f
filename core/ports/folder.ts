/** Makes folders and files that survive a power cut, for everything that keeps files of its own. */
import { accessSync, closeSync, constants, fsyncSync, mkdirSync, openSync, promises } from "node:fs";
import { readdirSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Returns why a folder, or something in it, cannot be used, and what to do, for a person who reads that something failed there:
 * another user, often root, has run the relay first. Returns nothing for any other cause.
 */
export function ownerAdvice(folder: string): string | undefined {
  const me = process.getuid?.();
  if (me === undefined) return undefined;
  try {
    for (const name of ["", ...(isUsable(folder) ? readdirSync(folder) : [])]) {
      const path = join(folder, name);
      const { uid } = statSync(path);
      if (uid !== me && !isUsable(path))
        return `${path} belongs to user ${uid}, and this is user ${me}: chown -R ${me} ${folder}, or run it as user ${uid}`;
    }
  } catch {
    // It is not even there to be looked at.
  }
  return undefined;
}

function isUsable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Syncs a folder: names made, moved or removed in it are then durable. Does nothing on Windows, which cannot do it. */
export function syncFolder(path: string): void {
  if (process.platform === "win32") return;
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** The same without blocking the thread. */
export async function syncFolderAsync(path: string): Promise<void> {
  if (process.platform === "win32") return;
  await using folder = await promises.open(path, "r");
  await folder.sync();
}

/** Writes a new file that only its owner may read, and syncs it; its folder is left to the caller. @throws Error EEXIST */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  await using file = await promises.open(path, "wx", 0o600);
  await file.writeFile(text);
  await file.sync();
}

/**
 * Makes the folder and its missing parents, mode 0700, so that no power cut removes them after this returns. A new
 * folder is durable once its parent is synced. An earlier run may have died before that, so this also syncs the parent
 * of a folder that is still empty, and goes on upwards while a folder holds nothing else.
 * @throws Error of `mkdirSync`, or of the sync of a folder that it made
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
      // A folder that this process may not open belongs to somebody else: no earlier run made it.
      return;
    }
  }
}
