/**
 * Overwrites what SQLite leaves of deleted records: when it moves records between pages, copies stay in the gap of a page
 * between its pointers and its records, where `secure_delete` never comes. A clean-up reads every page of the file, a
 * few at a time while nothing is written, and writes zeros over the gaps, in the file itself: SQLite reads no gap, so that
 * a crash in the middle of a write, or a reader beside it, meets the same page. (`VACUUM` would hold up the writer for
 * minutes, and needs the room of a second file.) A row says that one is owed, written with the deletion.
 *
 * A page that was cleaned stays clean unless a commit moves another page's bytes to it. So the pages that the log has
 * are noted before they are copied to the file, and cleaned again.
 */
import { closeSync, fdatasyncSync, fstatSync, openSync, readSync, statSync, writeSync } from "node:fs";
import type { DatabaseSync, StatementSync } from "node:sqlite";

/** Key of the row that says that a clean-up is owed. It sorts after every key that is read or counted by its prefix. */
export const OWED = "\u007f";

/** Bytes of a page, and the number of pages that the one before them says the kind of: a page of the file's map. */
const [PAGE, MAPPED] = [4_096, 819];
/** The numbers in the map for the root and the other pages of a table or index. */
const [ROOT, TREE] = [1, 5];
/** Pages read in one step, in some milliseconds; most pages that are noted, beyond which it begins again. */
const [STEP, NOTED] = [500, 50_000];
/** Bytes before the first frame of the log, and before the page in each. */
const [LOG_HEAD, FRAME_HEAD] = [32, 24];
const ZEROS = Buffer.alloc(PAGE);

interface Writing {
  readonly db: DatabaseSync;
  readonly begin: StatementSync;
  readonly record: { readonly del: StatementSync };
}

export interface CleanUp {
  /** To be called when a commit erases something. */
  owe(): void;
  /** To be called before the log is copied to the file. */
  noteLog(): void;
  /** Cleans some pages, in a transaction that `end` commits. @returns whether something is left to do */
  step(own: Writing, end: () => void): boolean;
}

/**
 * @param file opens the file once for the process: to close it would drop the locks of its connections
 * @param owed whether the row is there
 */
export function createCleanUp(path: string, file: () => number, owed: boolean): CleanUp {
  const log = `${path}-wal`;
  const page = Buffer.allocUnsafe(PAGE);
  const again = new Set<number>();
  /** The page to be cleaned next; 0: nothing is under way. The first page has no records. */
  let next = 0;
  /** Something was erased since the clean-up began. */
  let more = false;

  /** @returns whether the page was changed */
  function clean(fd: number, number: number): boolean {
    const inMap = (number - 2) % (MAPPED + 1);
    if (inMap === 0) return false;
    readSync(fd, page, 0, 1, (number - inMap - 1) * PAGE + 5 * (inMap - 1));
    if (page[0] !== ROOT && page[0] !== TREE) return false;
    const at = (number - 1) * PAGE;
    readSync(fd, page, 0, PAGE, at);
    const isLeaf = page.readUInt8(0) > 8;
    const from = (isLeaf ? 8 : 12) + 2 * page.readUInt16BE(3);
    const to = page.readUInt16BE(5);
    if (from >= to || to > PAGE || page.compare(ZEROS, 0, to - from, from, to) === 0) return false;
    return writeSync(fd, ZEROS, 0, to - from, at + from) > 0;
  }

  /** Returns the last page of a file that has a map; 0 for those of version 0.1.0. */
  function lastOf(fd: number): number {
    readSync(fd, page, 0, 100, 0);
    const known = page.readUInt16BE(16) === PAGE && page[20] === 0 && page.readUInt32BE(52) > 0;
    return known ? fstatSync(fd).size / PAGE : 0;
  }

  function noteLog(): void {
    if (next === 0) return;
    const fd = openSync(log, "r");
    for (let at = LOG_HEAD; readSync(fd, page, 0, 4, at) === 4; at += FRAME_HEAD + PAGE) {
      const number = page.readUInt32BE(0);
      if (number > 1 && number < next) again.add(number);
    }
    closeSync(fd);
    if (again.size > NOTED) next = 0;
  }

  return {
    owe: () => void ([owed, more] = [true, true]),
    noteLog,
    step({ db, begin, record }, end) {
      if (!owed) return false;
      noteLog();
      // Without a wait for readers: the next step tries again. The cache has pages as they were.
      db.exec("PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA busy_timeout = 5000");
      db.exec("PRAGMA shrink_memory");
      begin.run();
      if (statSync(log).size === 0) {
        const fd = file();
        const last = lastOf(fd);
        if (next === 0) again.clear();
        if (next === 0) [next, more] = [2, false];
        let changed = false;
        for (let n = 0; n < STEP && (again.size > 0 || next <= last); n++) {
          const [number = next++] = again;
          again.delete(number);
          if (number <= last) changed = clean(fd, number) || changed;
        }
        if (changed) fdatasyncSync(fd);
        if (again.size === 0 && next > last) {
          [owed, next] = [more, 0];
          if (!owed && last > 0) record.del.run(OWED);
        }
      }
      end();
      return owed;
    },
  };
}
