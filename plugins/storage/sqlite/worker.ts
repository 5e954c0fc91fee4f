/**
 * The writer: one thread that owns the writing connection of a database. Every message is a batch of commits, written
 * in one transaction with one fsync; each commit still succeeds or is refused alone.
 */
import { closeSync, openSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";
import { collector, whenIdle } from "../../../core/ports/idle.ts";
import { makeChanges } from "./changes.ts";
import { createCleanUp, OWED } from "./clean-up.ts";
import { faultOf } from "./faults.ts";
import type { Open, Table, WorkerAnswer, WorkerBatch, WorkerRequest, WorkerStart } from "./writing.ts";

/** PRAGMA user_version and application_id ("Rlay") of our files. */
const [SCHEMA, APPLICATION] = [1, 0x52_6c_61_79];
const TABLES = `
  BEGIN IMMEDIATE;
  CREATE TABLE record (key TEXT NOT NULL UNIQUE, value TEXT NOT NULL);
  CREATE TABLE line (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  PRAGMA application_id = ${APPLICATION}; PRAGMA user_version = ${SCHEMA};
  COMMIT`;
/** Pages in the log at which it is copied to the database. Checked now and then: it may be longer by some batches. */
const [CHECKPOINT_PAGES, LOOK_EVERY] = [2_000, 16];
/** It rests without a batch for this long, ms. Free pages are given back then: so many at once, in a few milliseconds. */
const [REST_MS, STEP_PAGES] = [100, 128];
/** Free pages that stay, because they are written over first: so many, and this part of the file. */
const [SPARE_PAGES, SPARE_PART] = [1_024, 8];

const { path, cacheKiB } = workerData as WorkerStart;
let open: Open | undefined;
/** The transaction is being made durable: if that fails, it may still have happened. */
let committing = false;
/** A commit that failed may stand in the log, behind its end: the next transaction is written over it. */
let unsettled = false;
let [batches, gaveBack] = [0, false];
/** The file, for clean-ups. */
let file: number | undefined;
const resting = setTimeout(rest, REST_MS).unref();

function connect(): Open {
  const db = new DatabaseSync(path, { timeout: 5_000 });
  try {
    const fresh = isFresh(db);
    // Before the file has a page: later it takes a VACUUM.
    if (fresh) db.exec("PRAGMA auto_vacuum = INCREMENTAL");
    db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0");
    db.exec(`PRAGMA secure_delete = ON; PRAGMA journal_size_limit = 16777216; PRAGMA cache_size = -${cacheKiB}`);
    if (fresh) db.exec(TABLES);
    try {
      // Rewrites and syncs a log that an unclean end left: after a failed sync it may be in the page cache alone.
      db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch (error) {
      if (faultOf(error, path).fault !== "full") throw error; // even on a full disk there is much to read and deliver
    }
    const prepareTable = (table: string): Table => {
      const get = db.prepare(`SELECT value FROM ${table} WHERE key = ?`);
      get.setReturnArrays(true);
      return {
        get,
        put: db.prepare(`INSERT INTO ${table} VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`),
        del: db.prepare(`DELETE FROM ${table} WHERE key = ?`),
        add: db.prepare(`INSERT INTO ${table} VALUES (?, ?) ON CONFLICT DO NOTHING`),
        drop: db.prepare(`DELETE FROM ${table} WHERE key = ? AND value = ?`),
      };
    };
    const record = prepareTable("record");
    const owed = record.get.get(OWED) !== undefined;
    return {
      db,
      begin: db.prepare("BEGIN IMMEDIATE"),
      commit: db.prepare("COMMIT"),
      record,
      line: prepareTable("line"),
      cleanUp: createCleanUp(path, () => (file ??= openSync(path, "r+")), owed),
    };
  } catch (error) {
    db.close();
    throw error;
  }
}

class Refused extends Error {}

const number = (db: DatabaseSync, pragma: string): number =>
  Object.values(db.prepare(`PRAGMA ${pragma}`).get() ?? {})[0] as number;

/** Returns true when the file is still empty. @throws Refused, before any change, when it is not one of ours */
function isFresh(db: DatabaseSync): boolean {
  const version = number(db, "user_version");
  if (version === 0 && db.prepare("SELECT count(*) AS n FROM sqlite_schema").get()?.["n"] === 0) return true;
  if (number(db, "application_id") !== APPLICATION)
    throw new Refused(`${path} is the database of another program: choose another folder`);
  if (version <= SCHEMA) return false;
  throw new Refused(`${path} was written by a newer version (schema ${version}, this one knows ${SCHEMA})`);
}

function write(batch: WorkerBatch): WorkerAnswer {
  const own = (open ??= connect());
  const refused: [number, readonly string[]][] = [];
  const place = { code: 0, text: 0 };
  let erasing = false;
  own.begin.run();
  for (let commit = 0; place.code < batch.codes.length; commit++) {
    const { unmet, erases } = makeChanges(own, batch, place);
    if (unmet !== undefined) refused.push([commit, unmet]);
    else erasing ||= erases;
  }
  if (erasing) own.record.add.run(OWED, "");
  if (erasing) own.cleanUp.owe();
  makeDurable(own);
  return { done: refused.length > 0 ? refused : undefined };
}

/** Ends a transaction. A failure leaves open whether it has happened. */
function makeDurable({ commit }: Open): void {
  committing = true;
  commit.run();
  committing = false;
  unsettled = false;
}

/** Runs after the answer, so that nobody waits for it: copies a long log to the database. */
function tidy(): void {
  if (open === undefined || ++batches % LOOK_EVERY !== 0) return;
  try {
    if (logPages(open.db) >= CHECKPOINT_PAGES) copyLog(open);
  } catch {
    // A full disk, for example: the log grows meanwhile, and the next check tries again.
  }
}

function copyLog({ db, cleanUp }: Open): void {
  cleanUp.noteLog();
  db.exec("PRAGMA wal_checkpoint(PASSIVE)");
}

/**
 * Gives some free pages back to the disk, in a transaction of its own, and the rest after another pause; then cleans up
 * after erasures in the same way. Before that it settles a commit that failed: with no other commit after it, it would come back at the next start, whenever that is.
 */
function rest(): void {
  try {
    const own = unsettled ? (open ??= connect()) : open;
    if (own === undefined) return;
    const { db, begin } = own;
    if (unsettled) {
      begin.run();
      db.exec(`PRAGMA user_version = ${SCHEMA}`); // writes a page, and changes nothing
      makeDurable(own);
    }
    const spare = Math.max(SPARE_PAGES, Math.ceil(number(db, "page_count") / SPARE_PART));
    const more = number(db, "auto_vacuum") === 2 ? number(db, "freelist_count") - spare : 0;
    if (more > 0) {
      begin.run();
      db.exec(`PRAGMA incremental_vacuum(${Math.min(STEP_PAGES, more)})`);
      makeDurable(own);
    }
    // The file itself gets smaller when the log is copied to it.
    if (more <= 0 ? gaveBack : logPages(db) >= CHECKPOINT_PAGES) copyLog(own);
    gaveBack = more > 0;
    if (gaveBack || own.cleanUp.step(own, () => makeDurable(own))) resting.refresh();
  } catch (error) {
    failed(error);
  }
}

const logPages = (db: DatabaseSync): number => db.prepare("PRAGMA wal_checkpoint(NOOP)").get()?.["log"] as number;

/** Turns a failure into the answer for a batch. The transaction is rolled back, or the connection abandoned. */
function failed(error: unknown): WorkerAnswer {
  const { fault, message } = faultOf(error, path);
  const uncertain = committing;
  committing = false;
  unsettled ||= uncertain && fault !== "full";
  if (unsettled) resting.refresh();
  try {
    if (open?.db.isTransaction) open.db.exec("ROLLBACK");
    // A failed sync keeps its connection: the next batch overwrites those very frames of the log, and syncs them.
    if (!uncertain && fault !== "full") disconnect();
  } catch {
    disconnect();
  }
  // A full disk shows while writing: the end of the transaction is not in the log.
  return { fault: fault === "unavailable" && uncertain ? "uncertain" : fault, message };
}

function disconnect(): void {
  try {
    open?.db.close();
  } catch {} // The connection is abandoned anyway.
  open = undefined;
}

function answer(batch: WorkerBatch): WorkerAnswer {
  try {
    return write(batch);
  } catch (error) {
    if (error instanceof Refused) return { refused: error.message };
    return failed(error);
  }
}

const say = (text: WorkerAnswer): void => parentPort?.postMessage(text);

parentPort?.on("message", (ask: WorkerRequest) => {
  if (ask !== "close") {
    say(answer(ask));
    tidy();
    return void resting.refresh();
  }
  clearTimeout(resting);
  disconnect();
  if (file !== undefined) closeSync(file);
  say({ closed: true });
  parentPort?.close();
});

try {
  open = connect();
  say({ opened: true });
} catch (error) {
  say(error instanceof Refused ? { refused: error.message } : failed(error));
}
const sleep = (ms: number): Promise<void> => new Promise((over) => setTimeout(over, ms).unref());
// Pages of the cache, and garbage of batches: V8 by itself would keep 40 MB of that for ever.
whenIdle(sleep, () => {
  collector()();
  open?.db.exec("PRAGMA shrink_memory");
}).catch(() => undefined);
// Threads are ended from outside, which would lose what they have compiled.
flushCompileCache();
