/** The source behind `spool()`, loaded only where a config names it. */
import { watch, type FSWatcher } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { resolve } from "node:path";
import { StartError } from "../../../core/model/errors.ts";
import { systemReason } from "../../../core/lib/system-error.ts";
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
import { createProgress } from "./read-position.ts";
import { takeIn, type Taking } from "./take.ts";

/** @throws StartError 78 when the folder cannot be used */
export async function startSpool(
  ctx: PluginContext,
  { dir: given, rescanMs = 10_000 }: { readonly dir: string; readonly rescanMs?: number },
): Promise<Source> {
  const dir = resolve(ctx.configDir, given);
  const folder = await makeSpoolFolders(dir).catch((cause: unknown) => {
    throw new StartError(78, `spool: ${dir} cannot be used: ${systemReason(cause)}`, { cause });
  });
  return createSpool(folder, rescanMs, ctx);
}

function createSpool(folder: Folder, rescanMs: number, { clock, log, metrics, storage }: PluginContext): Source {
  const progress = createProgress(storage, folder.dir, log);
  const stopping = new AbortController();
  let running: Promise<void> | undefined;
  let watcher: FSWatcher | undefined;
  let news = Promise.withResolvers<void>();
  /** What was logged about a name, so that it is logged once. */
  let said = new Map<string, string>();
  let tidied = false;

  function look(): void {
    try {
      watcher = watch(folder.dir, { persistent: false }, () => news.resolve());
      // Without it, the next scan of the folder finds the files.
      watcher.on("error", (error) => log.warn("a spool folder cannot be watched", { error: String(error) }));
    } catch (error) {
      log.warn("a spool folder cannot be watched", { error: String(error) });
    }
  }

  async function run(accept: Accept): Promise<void> {
    const taking: Taking = { accept, progress, stopping: stopping.signal };
    while (!stopping.signal.aborted) {
      news = Promise.withResolvers();
      let waitMs: number | undefined;
      try {
        waitMs = await pass(taking);
      } catch (error) {
        log.error("a spool folder cannot be read", { error: String(error) });
      }
      // After a refusal as long as it asked for, else until something happens in the folder.
      const something = waitMs === undefined ? news.promise : new Promise(() => {});
      await within(clock, waitMs ?? rescanMs, something, stopping.signal);
    }
  }

  /** Scans the folder once. Resolves to how long to wait when nothing can be stored now. */
  async function pass(taking: Taking): Promise<number | undefined> {
    await putBack(folder);
    const { ready, odd } = await list(folder);
    said = new Map([...said].filter(([name]) => ready.includes(name) || odd.includes(name)));
    for (const name of odd) say(name, "is not a plain file");
    const seen = new Set<string>();
    for (const name of ready) {
      if (stopping.signal.aborted) return undefined;
      try {
        const waitMs = await one(name, taking, seen);
        if (waitMs !== undefined) return waitMs;
      } catch (error) {
        // An error of this file alone: the others continue.
        say(name, String(error));
      }
    }
    lag(0);
    if (!tidied) await progress.keepOnly(seen, moved);
    tidied = true;
    return undefined;
  }

  async function one(name: string, taking: Taking, seen: Set<string>): Promise<number | undefined> {
    await using opened = await openPlain(folder, name);
    if (opened === undefined) {
      // It is read under another name than it has.
      if (name.includes("\ufffd")) say(name, "its name is not valid UTF-8");
      return undefined;
    }
    seen.add(opened.identity);
    const taken = await takeIn(opened, taking);
    if (taken.kind === "later") {
      say(name, taken.reason);
      lag(Math.max(0, clock.now() - opened.changedAt));
      return taken.retryAfterMs;
    }
    let isMoved: boolean;
    if (taken.kind === "stored") {
      isMoved = await moveTo(folder, opened.taken, folder.done);
      log.info("a spool file is stored", { source: "spool", file: name, events: taken.lines });
    } else {
      const { stored, errors, more } = taken;
      const rejectedAt = new Date(clock.now()).toISOString();
      const note = "Lines in `stored` are accepted; correct the others and drop those in a new file.";
      isMoved = await moveRejected(folder, opened.taken, { file: name, rejectedAt, note, stored, errors, more });
      log.warn("a spool file is rejected", { source: "spool", file: name, count: errors.length + more });
    }
    if (!isMoved) {
      log.warn("a spool file was replaced while it was read", { source: "spool", file: name });
      news.resolve();
    }
    metrics.count("spool_files", { result: taken.kind });
    // Read again at its new place: its writer may have held it open.
    await rest(opened.taken, opened.file);
    await progress.forget(opened.identity);
    return undefined;
  }

  /** Handles a file that an earlier run had taken, and perhaps moved: it may have died before it read it again. */
  async function moved(file: TakenFile): Promise<void> {
    await using handle = await openDone(folder, file);
    if (handle !== undefined) await rest(file, handle);
  }

  async function rest(file: TakenFile, handle: FileHandle): Promise<void> {
    const name = await dropRest(folder, file, handle);
    if (name === undefined) return;
    log.warn("a spool file was written to while it was read: the rest follows", { file: file.name, detail: name });
    news.resolve();
  }

  const lag = (ms: number): void => metrics.gauge("source_lag_seconds", ms / 1_000, { source: "spool" });

  function say(name: string, reason: string): void {
    if (said.get(name) === reason) return;
    said.set(name, reason);
    log.warn("a spool file waits", { source: "spool", file: name, reason });
  }

  return {
    start(accept) {
      if (stopping.signal.aborted || running !== undefined) return;
      look();
      running = run(accept);
    },
    async stop() {
      stopping.abort(new Error("stopping"));
      watcher?.close();
      await running;
    },
  };
}
