/** Lets only one process use a folder, with an operating-system lock that ends with its holder, however that ends. */
import { closeSync, existsSync, openSync, realpathSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { StartError } from "../../../core/model/errors.ts";
import { ownerAdvice } from "../../../core/ports/folder.ts";
import { reasonOf } from "../../../core/lib/reason.ts";

interface FolderLock {
  release(): void;
}

/** Folders locked by this process: closing a second descriptor of a file would drop its lock (POSIX). */
const held = new Set<string>();

/**
 * Takes `<dir>/lock`. The file is a tiny SQLite database: its write lock is a lock of the operating system on every
 * platform, visible across containers that share the folder, and the holder's process id can be read next to it.
 * @throws StartError 75 naming the process that holds it; 78 when the folder cannot be used at all
 */
export async function lockFolder(dir: string): Promise<FolderLock> {
  const path = join(realpathSync(dir), "lock");
  const busy = (pid: unknown): StartError =>
    new StartError(75, `another process (pid ${String(pid)}) is using ${dir}: stop it first, or choose another folder`);
  if (held.has(path)) throw busy(process.pid);
  held.add(path);
  try {
    const { DatabaseSync } = await import("node:sqlite");
    if (!existsSync(path)) closeSync(openSync(path, "a", 0o600));
    const db = new DatabaseSync(path);
    try {
      take(db);
    } catch (error) {
      const pid = (error as { errcode?: number }).errcode === BUSY ? pidIn(db) : undefined;
      db.close();
      throw pid === undefined ? error : busy(pid);
    }
    return {
      release() {
        if (!held.delete(path)) return;
        db.close();
      },
    };
  } catch (error) {
    held.delete(path);
    if (error instanceof StartError) throw error;
    throw new StartError(78, `${dir} cannot be used: ${ownerAdvice(dir) ?? reasonOf(error)}`, { cause: error });
  }
}

const BUSY = 5;

function take(db: DatabaseSync): void {
  db.exec("BEGIN IMMEDIATE");
  try {
    db.exec(`PRAGMA user_version = ${process.pid}`);
    db.exec("COMMIT");
  } catch {
    // A full disk: the lock still holds, but the process id is missing.
    if (db.isTransaction) db.exec("ROLLBACK");
  }
  db.exec("BEGIN IMMEDIATE");
}

/** The holder's; "unknown" while it is writing it. */
function pidIn(db: DatabaseSync): unknown {
  try {
    return db.prepare("PRAGMA user_version").get()?.["user_version"];
  } catch {
    return "unknown";
  }
}
