/** The main thread's side of the writer: collects commits while a batch is under way, and tells each how it ended. */
import { ConflictError, StartError, StorageError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Change } from "../../../core/ports/storage.ts";
import { rewriteFile } from "../embedded/rewrite-file.ts";
import { faultOf } from "./faults.ts";
import { startThread, type Thread } from "./thread.ts";
import type { WorkerAnswer, WorkerBatch, WorkerRequest, WorkerStart } from "./writing.ts";

/** Most commits and characters of one batch; a single commit may be longer. */
const BATCH_COMMITS = 1_024;
const BATCH_CHARS = 4 * 1024 * 1024;
/** Most turns of the event loop in which a batch is collected while the thread is idle. */
const TURNS = 4;
/** This many commits go at once: the thread makes them durable while this one still works on the next. */
const ENOUGH = 64;
/** How long a commit that may wait does so, for a batch that is made for others, ms. */
const SOON_MS = 5;
/** Most batches at the thread: one under way, and one waiting there, so that the thread need not wait for us. */
const AHEAD = 2;

interface Waiting {
  readonly changes: readonly Change[];
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

/**
 * Starts the thread and opens the database.
 * @param written called for each batch with the number of its changes
 * @param launch starts a thread
 * @throws StartError 78 when the file is not ours or of a newer version; StorageError when it cannot be opened
 */
export async function openWriter(
  start: WorkerStart,
  written: (changes: number) => void,
  clock: Pick<Clock, "now" | "sleep">,
  launch: typeof startThread = startThread,
): Promise<Writer> {
  async function open(): Promise<Thread> {
    await rewriteLog(`${start.path}-wal`);
    const { thread, first } = await launch(start);
    if ("opened" in first) return thread;
    await thread.end();
    throw errorOf(first);
  }
  return new Writer({ path: start.path, open, written, clock }, await open());
}

interface WriterDeps {
  readonly path: string;
  /** Opens the database in a new thread. */
  readonly open: () => Promise<Thread>;
  readonly written: (changes: number) => void;
  readonly clock: Pick<Clock, "now" | "sleep">;
}

class Writer {
  readonly #deps: WriterDeps;
  readonly #waiting: Waiting[] = [];
  #thread: Thread;
  /** Somebody waits for one of them; otherwise they go when the first has waited. */
  #urgent = false;
  #asking = 0;
  #collecting = false;
  #opening: Promise<void> | undefined;

  constructor(deps: WriterDeps, thread: Thread) {
    this.#deps = deps;
    this.#thread = thread;
  }

  /** With `soon` it goes with the next batch of others, and makes one only after some ms, or when many wait like it. */
  commit(changes: readonly Change[], soon = false): Promise<void> {
    return new Promise((resolve, reject) => {
      const own = { changes, resolve, reject };
      this.#waiting.push(own);
      this.#send(!soon);
      if (!soon || this.#waiting.length !== 1) return;
      const late = (): void => (this.#waiting[0] === own ? this.#send(true) : undefined);
      void this.#deps.clock.sleep(this.#deps.clock.now() + SOON_MS).then(late);
    });
  }

  /** Ends after everything that was committed before. */
  async close(): Promise<void> {
    // The thread answers in order, also one that is started for what still waits.
    while (this.#waiting.length > 0) void this.#sendBatch();
    await this.#ask("close");
    await this.#thread.end();
  }

  /** Sends what is enough for a batch; the rest when the thread would be idle without it, and it need not wait. */
  #send(now = false): void {
    this.#urgent ||= now;
    while (this.#asking < AHEAD && this.#waiting.length >= ENOUGH) void this.#sendBatch();
    if (this.#asking === 0 && !this.#collecting && this.#urgent) void this.#sendRest();
  }

  /**
   * Sends at the end of this turn of the event loop, so that all of its commits go together; or of one of the next, as
   * long as each brings more. A batch costs its fsync and two messages whatever its size, and a turn of a busy loop is
   * far shorter than that; an idle one ends at once.
   */
  async #sendRest(): Promise<void> {
    this.#collecting = true;
    for (let turns = 0, had = -1; turns < TURNS && this.#waiting.length > had; turns++) {
      had = this.#waiting.length;
      await new Promise((turned) => setImmediate(turned));
    }
    this.#collecting = false;
    if (this.#asking === 0 && this.#waiting.length > 0) await this.#sendBatch();
  }

  async #sendBatch(): Promise<void> {
    const { batch, request } = take(this.#waiting);
    this.#urgent = this.#waiting.length > 0;
    this.#settle(batch, await this.#ask(request));
    this.#send();
  }

  /** Sends a request to the thread, or to a new one if it died. Never rejects. */
  async #ask(question: WorkerRequest): Promise<WorkerAnswer> {
    this.#asking++;
    try {
      if (this.#thread.dead) await (this.#opening ??= this.#reopen());
      return await this.#thread.ask(question);
    } catch (error) {
      return faultOf(error, this.#deps.path);
    } finally {
      this.#asking--;
    }
  }

  async #reopen(): Promise<void> {
    try {
      this.#thread = await this.#deps.open();
    } finally {
      this.#opening = undefined;
    }
  }

  #settle(batch: readonly Waiting[], answer: WorkerAnswer): void {
    if (!("done" in answer)) {
      const error = errorOf(answer);
      for (const { reject } of batch) reject(error);
      return;
    }
    const refused = answer.done === undefined ? undefined : new Map(answer.done);
    let changes = 0;
    for (let i = 0; i < batch.length; i++) {
      const one = batch[i] as Waiting;
      const keys = refused?.get(i);
      if (keys !== undefined) one.reject(new ConflictError(keys));
      else {
        one.resolve();
        changes += one.changes.length;
      }
    }
    this.#deps.written(changes);
  }
}

/**
 * Rewrites the log that an earlier process left, before SQLite reads it. A commit whose sync failed may be complete in
 * the page cache but not on the disk: SQLite would take it for committed and copy it into the database, and a power cut
 * before the log is emptied would then leave an older log over a newer database, which is half a commit or a damaged
 * file.
 * @throws StorageError `unavailable` when it cannot be read or written; a full disk is no fault here
 */
async function rewriteLog(path: string): Promise<void> {
  try {
    await rewriteFile(path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "failed";
    if (code === "ENOENT" || code === "ENOSPC" || code === "EDQUOT") return;
    throw new StorageError("unavailable", `sqlite: the log cannot be synced: ${code}`, { cause: error });
  }
}

/** Takes the first of them, as many as a batch may have. */
function take(waiting: Waiting[]): { readonly batch: readonly Waiting[]; readonly request: WorkerBatch } {
  const codes: number[] = [];
  const texts: string[] = [];
  let count = 0;
  for (let chars = 0, text = 0; count < waiting.length && count < BATCH_COMMITS && chars < BATCH_CHARS; count++) {
    const { changes } = waiting[count] as Waiting;
    codes.push(changes.length);
    flatten(changes, codes, texts);
    for (; text < texts.length; text++) chars += (texts[text] as string).length;
  }
  return { batch: waiting.splice(0, count), request: { codes, texts } };
}

/** Appends changes to the lists of a batch. */
function flatten(changes: readonly Change[], codes: number[], texts: string[]): void {
  for (const change of changes) {
    const condition = change.if === undefined ? 0 : change.if === null ? 4 : 8;
    texts.push(change.key);
    if (change.op === "put") {
      texts.push(change.value);
      codes.push(1 + condition);
    } else codes.push((change.op === "delete" ? 2 : 3) + condition);
    if (condition === 8) texts.push(change.if as string);
  }
}

function errorOf(answer: WorkerAnswer): Error {
  if ("refused" in answer) return new StartError(78, answer.refused);
  if ("fault" in answer) return new StorageError(answer.fault, answer.message);
  return new StorageError("broken", "sqlite: the storage thread gave an unexpected answer");
}
