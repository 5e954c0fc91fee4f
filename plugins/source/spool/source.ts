/** The source behind `spool()`, loaded only where a config names it. */
import { watch, type FSWatcher } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { resolve } from "node:path";
import { StartError } from "../../../core/model/errors.ts";
import { reasonOf } from "../../../core/lib/reason.ts";
import { within } from "../../../core/lib/within.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Accept, Source } from "../../../core/ports/source.ts";
import {
  dropRest,
  type Folder,
  list,
  makeSpoolFolders,
  moveRejected,
  moveTo,
  openDone,
  openPlain,
  putBack,
  type TakenFile,
} from "./folder.ts";
import { createProgress, type ReadPosition } from "./read-position.ts";
import { takeIn, type TakenIn, type Taking } from "./take.ts";

const SOURCE = "spool";

/** @throws StartError 78 when the folder cannot be used */
export async function startSpool(
  ctx: PluginContext,
  { dir: given, rescanMs = 10_000 }: { readonly dir: string; readonly rescanMs?: number },
): Promise<Source> {
  const dir = resolve(ctx.configDir, given);
  const folder = await makeSpoolFolders(dir).catch((cause: unknown) => {
    throw new StartError(78, `spool: ${dir} cannot be used: ${reasonOf(cause)}`, { cause });
  });
  return new Spool(ctx, folder, rescanMs);
}

class Spool implements Source {
  readonly #ctx: PluginContext;
  readonly #folder: Folder;
  readonly #rescanMs: number;
  readonly #progress: ReadPosition;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  #watcher: FSWatcher | undefined;
  #news = Promise.withResolvers<void>();
  /** Why each file waits, so that a reason is logged once. */
  #reasons = new Map<string, string>();
  #isTidied = false;
  /** Why nothing can be read, or stored, now. */
  #trouble: string | undefined;

  constructor(ctx: PluginContext, folder: Folder, rescanMs: number) {
    [this.#ctx, this.#folder, this.#rescanMs] = [ctx, folder, rescanMs];
    this.#progress = createProgress(ctx.storage, folder.dir, ctx.log);
  }

  start(accept: Accept): void {
    if (this.#stop.signal.aborted || this.#running !== undefined) return;
    // Without it, the next scan of the folder finds the files.
    const failed = (error: unknown): void =>
      this.#ctx.log.warn("a spool folder cannot be watched", { error: String(error) });
    try {
      this.#watcher = watch(this.#folder.dir, { persistent: false }, () => this.#news.resolve()).on("error", failed);
    } catch (error) {
      failed(error);
    }
    this.#running = this.#run({ accept, progress: this.#progress, stopping: this.#stop.signal });
  }

  readiness(): string | undefined {
    return this.#trouble;
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error("stopping"));
    this.#watcher?.close();
    await this.#running;
  }

  async #run(taking: Taking): Promise<void> {
    while (!taking.stopping.aborted) {
      this.#news = Promise.withResolvers();
      let waitMs: number | undefined;
      try {
        waitMs = await this.#scan(taking);
        if (waitMs === undefined) this.#trouble = undefined;
      } catch (error) {
        this.#trouble = `the folder cannot be read: ${reasonOf(error)}`;
        this.#ctx.log.error("a spool folder cannot be read", { error: String(error) });
      }
      // After a refusal as long as it asked for, else until something happens in the folder.
      const something = waitMs === undefined ? this.#news.promise : new Promise(() => {});
      await within(this.#ctx.clock, waitMs ?? this.#rescanMs, something, taking.stopping);
    }
  }

  /** Scans the folder once. Resolves to how long to wait when nothing can be stored now. */
  async #scan(taking: Taking): Promise<number | undefined> {
    await putBack(this.#folder);
    const { ready, odd } = await list(this.#folder);
    this.#reasons = new Map([...this.#reasons].filter(([name]) => ready.includes(name) || odd.includes(name)));
    for (const name of odd) this.#waits(name, "is not a plain file");
    const seen = new Set<string>();
    for (const name of ready) {
      if (taking.stopping.aborted) return undefined;
      try {
        const waitMs = await this.#take(name, taking, seen);
        if (waitMs !== undefined) return waitMs;
      } catch (error) {
        // An error of this file alone: the others continue.
        this.#waits(name, String(error));
      }
    }
    this.#lag(0);
    if (!this.#isTidied) await this.#progress.keepOnly(seen, (file) => this.#restOfMoved(file));
    this.#isTidied = true;
    return undefined;
  }

  async #take(name: string, taking: Taking, seen: Set<string>): Promise<number | undefined> {
    const { clock, log, metrics } = this.#ctx;
    await using opened = await openPlain(this.#folder, name);
    if (opened === undefined) {
      // It is read under another name than it has.
      if (name.includes("\ufffd")) this.#waits(name, "its name is not valid UTF-8");
      return undefined;
    }
    seen.add(opened.identity);
    const taken = await takeIn(opened, taking);
    if (taken.kind === "later") {
      this.#waits(name, taken.reason);
      if (taken.retryAfterMs !== undefined) this.#trouble = `nothing can be stored now: ${taken.reason}`;
      this.#lag(clock.now() - opened.changedAt);
      return taken.retryAfterMs;
    }
    if (!(await this.#move(opened.taken, taken))) {
      log.warn("a spool file was replaced while it was read", { source: SOURCE, file: name });
      this.#news.resolve();
    }
    metrics.count("spool_files", { result: taken.kind });
    // Read again at its new place: its writer may have held it open.
    await this.#rest(opened.taken, opened.file);
    await this.#progress.forget(opened.identity);
    return undefined;
  }

  /** Moves a file to `done/`, or to `rejected/` with a report. @returns false when the file was replaced, as `moveTo` */
  async #move(file: TakenFile, taken: Exclude<TakenIn, { readonly kind: "later" }>): Promise<boolean> {
    const [{ clock, log }, folder, { name }] = [this.#ctx, this.#folder, file];
    if (taken.kind === "stored") {
      const isMoved = await moveTo(folder, file, folder.done);
      log.info("a spool file is stored", { source: SOURCE, file: name, events: taken.lines });
      return isMoved;
    }
    const { stored, errors, more } = taken;
    const rejectedAt = new Date(clock.now()).toISOString();
    const note = "Lines in `stored` are accepted; correct the others and drop those in a new file.";
    const isMoved = await moveRejected(folder, file, { file: name, rejectedAt, note, stored, errors, more });
    log.warn("a spool file is rejected", { source: SOURCE, file: name, count: errors.length + more });
    return isMoved;
  }

  /** Handles a file that an earlier run had taken, and perhaps moved: it may have died before it read it again. */
  async #restOfMoved(file: TakenFile): Promise<void> {
    await using handle = await openDone(this.#folder, file);
    if (handle !== undefined) await this.#rest(file, handle);
  }

  async #rest(file: TakenFile, handle: FileHandle): Promise<void> {
    const rest = await dropRest(this.#folder, file, handle);
    if (rest === undefined) return;
    const about = { file: file.name, detail: rest };
    this.#ctx.log.warn("a spool file was written to while it was read: the rest follows", about);
    this.#news.resolve();
  }

  #lag(ms: number): void {
    this.#ctx.metrics.gauge("source_lag_seconds", Math.max(0, ms) / 1_000, { source: SOURCE });
  }

  #waits(name: string, reason: string): void {
    if (this.#reasons.get(name) === reason) return;
    this.#reasons.set(name, reason);
    this.#ctx.log.warn("a spool file waits", { source: SOURCE, file: name, reason });
  }
}
