/** A file that holds one secret. It is made once, whole or not at all, even when several processes try at the same time. */
import { randomBytes } from "node:crypto";
import { chmod, link, readFile, rename, stat, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { StartError } from "../../model/errors.ts";
import { makeDurableFolder, ownerAdvice, syncFolderAsync, writePrivateFile } from "../../ports/folder.ts";

/**
 * Reads the text in the file; where there is none, makes it with `fresh()` (mode 0600, its folder 0700). The text is on
 * disk when this resolves. Of several processes, all read the text of the first.
 * @throws StartError 78 when it can be neither read nor made
 */
export async function keyFile(
  path: string,
  fresh: () => string,
): Promise<{ readonly text: string; readonly made: boolean }> {
  try {
    const found = await read(path);
    const folder = dirname(path);
    if (found !== undefined) {
      // The process that made it may have died before it synced the folder. Where a sync
      // fails, the relay makes no keys either.
      await syncFolderAsync(folder).catch(() => {});
      return { text: found, made: false };
    }
    makeDurableFolder(folder);
    await chmod(folder, 0o700);
    const made = await create(path, `${fresh()}\n`);
    return { text: (await read(path)) ?? "", made };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? (error as Error).message;
    throw new StartError(78, `cannot read or make ${path} (${code})${owned(path)}`, { cause: error });
  }
}

/** The text in the file; `undefined` when it is not there. @throws StartError 78 when it cannot be read */
export async function readKeyFile(path: string): Promise<string | undefined> {
  try {
    return await read(path);
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    throw new StartError(78, `cannot read ${path} (${code})${owned(path)}`, { cause: error });
  }
}

/** Its folder is in the data folder, which is what to give to this user. */
function owned(path: string): string {
  const folder = dirname(path);
  const advice = ownerAdvice(dirname(folder)) ?? ownerAdvice(folder);
  return advice === undefined ? "" : `: ${advice}`;
}

/** Replaces `path` by `next` and keeps the text of `path` in `old`. A crash at any step loses no text; may be repeated. */
export async function promoteKeyFile(path: string, next: string, old: string): Promise<void> {
  const text = await read(path);
  if (text !== undefined) {
    const temp = join(dirname(old), `.${basename(old)}.${randomBytes(8).toString("hex")}`);
    await writePrivateFile(temp, `${text}\n`);
    await rename(temp, old);
    await syncFolderAsync(dirname(old));
  }
  await rename(next, path);
  await syncFolderAsync(dirname(path));
}

async function read(path: string): Promise<string | undefined> {
  try {
    // A copy from elsewhere may have come with other modes.
    if (((await stat(path)).mode & 0o077) !== 0) await chmod(path, 0o600);
    return (await readFile(path, "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** False when another process was first. A link, unlike a rename, never replaces a file. */
async function create(path: string, text: string): Promise<boolean> {
  const folder = dirname(path);
  const temp = join(folder, `.${basename(path)}.${randomBytes(8).toString("hex")}`);
  await writePrivateFile(temp, text);
  try {
    await link(temp, path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "";
    if (code === "EEXIST") return false;
    if (!["EPERM", "ENOTSUP", "ENOSYS", "EOPNOTSUPP"].includes(code)) throw error;
    // A file system without links: a crash in the middle leaves a torn file, which the next start reports.
    try {
      await writePrivateFile(path, text);
    } catch (again) {
      if ((again as NodeJS.ErrnoException).code === "EEXIST") return false;
      throw again;
    }
  } finally {
    await unlink(temp);
    await syncFolderAsync(folder);
    await syncFolderAsync(dirname(folder));
  }
  return true;
}
