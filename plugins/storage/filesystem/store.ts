/**
 * Stores commits: journal first, files later. A commit is acknowledged when the journal is synced, and reads see it
 * from then on. The files follow within a second; what was written and removed meanwhile never becomes a file.
 */
import { StorageError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import type { Change, Entry, RangeOptions } from "../../../core/ports/storage.ts";
import { judgeGroup, type PendingCommit } from "../embedded/group.ts";
import { groupLength } from "../embedded/group-length.ts";
import { fault } from "./disk.ts";
import type { Files } from "./files.ts";
import type { Journal } from "./journal.ts";
import { readConditions } from "./known.ts";
import { type Halves, readRange } from "./merge.ts";
import { assertKey } from "./file-names.ts";
import type { Overlay } from "./overlay.ts";

/** Most commits that share one fsync. */
const GROUP = 512;
/** Files are brought up to date at most this long after a commit. */
const LAG_MS = 1_000;
/** …or as soon as this many keys wait for them. */
const LAG_KEYS = 4_000;
const LAG_BYTES = 8 << 20;
/** Commits wait while the files are this many times as far behind. */
const BEHIND = 4;

interface StoreOptions {
  readonly journal: Journal;
  readonly files: Files;
  readonly overlay: Overlay;
  readonly clock: Clock;
  readonly log: Log;
}

export class Store {
  readonly #journal: Journal;
  readonly #files: Files;
  readonly #overlay: Overlay;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #halves: Halves;
  readonly #ended = new AbortController();
  #pending: PendingCommit[] = [];
  #committing: Promise<void> | undefined;
  #applying: Promise<void> | undefined;
  #timer = false;
  #lastFault: StorageError | undefined;
  #closed = false;
  /** The journal is one file, so writers wait for each other. */
  #writing: Promise<unknown> = Promise.resolve();

  constructor(options: StoreOptions) {
    this.#journal = options.journal;
    this.#files = options.files;
    this.#overlay = options.overlay;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#halves = {
      overlay: this.#overlay,
      keys: (from, to, reverse) => this.#files.keys(from, to, reverse),
      get: (key) => this.get(key),
    };
  }

  /**
   * Runs one at a time, in order; a failed one lets the next begin. What it may have left in the journal is settled soon, also
   * when nothing else is written.
   */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#writing.then(work, work);
    this.#writing = done.catch(() => void (this.#unsettled && this.#applySoon()));
    return done;
  }

  noteSplit(from: string): Promise<void> {
    return this.#alone(() => this.#journal.note(from));
  }

  async get(key: string): Promise<string | undefined> {
    const recent = this.#overlay.get(key);
    if (recent !== undefined) return recent ?? undefined;
    const value = await this.#files.read(key);
    // Committed during the read: the newest value counts.
    return value ?? this.#overlay.get(key) ?? undefined;
  }

  commit(changes: readonly Change[]): Promise<void> {
    if (this.#closed) return Promise.reject(new StorageError("unavailable", "the storage is closed"));
    try {
      for (const { key } of changes) assertKey(key);
    } catch (error) {
      return Promise.reject(error);
    }
    return new Promise((resolve, reject) => {
      this.#pending.push({ changes, resolve, reject });
      this.#committing ??= this.#commitAll();
    });
  }

  async #commitAll(): Promise<void> {
    // Commits of the same turn share the first group.
    await Promise.resolve();
    while (this.#pending.length > 0) {
      const group = this.#pending.splice(0, groupLength(this.#pending, GROUP));
      try {
        await this.#room();
        await this.#commitGroup(group);
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    // In the same turn as the last check, so that no commit comes in between and waits for ever.
    this.#committing = undefined;
  }

  /** Waits while the files are too far behind; refuses when they cannot follow. */
  async #room(): Promise<void> {
    while (this.#overlay.size > LAG_KEYS * BEHIND || this.#overlay.bytes > LAG_BYTES * BEHIND) {
      await this.apply().catch(() => {});
      if (this.#lastFault !== undefined) throw this.#lastFault;
    }
  }

  async #commitGroup(group: readonly PendingCommit[]): Promise<void> {
    const { values, unreadable } = await readConditions(group, (key) => this.get(key));
    const readable = group.filter((one) => {
      const error = one.changes.map(({ key }) => unreadable.get(key)).find((reason) => reason !== undefined);
      if (error !== undefined) one.reject(error);
      return error === undefined;
    });
    const judged = judgeGroup(readable, (key) => values.get(key));
    const lines = judged.writes.filter((writes) => writes.length > 0);
    // The journal and what reads see change together: nobody else may write in between.
    await this.#alone(async () => {
      if (lines.length > 0) await this.#journal.append(lines);
      for (const [key, value] of lines.flat()) this.#overlay.set(key, value);
    });
    judged.answer();
    if (this.#overlay.size > LAG_KEYS || this.#overlay.bytes > LAG_BYTES) void this.#applyQuietly();
    else if (this.#overlay.size > 0) this.#applySoon();
  }

  /** Whether the files, or the journal, are behind what was answered. */
  get #unsettled(): boolean {
    return this.#overlay.size > 0 || this.#journal.uncertain;
  }

  #applySoon(): void {
    if (this.#timer || this.#closed) return;
    this.#timer = true;
    void this.#clock.sleep(this.#clock.now() + LAG_MS, this.#ended.signal).then(
      () => {
        this.#timer = false;
        return this.#applyQuietly();
      },
      () => {},
    );
  }

  async #applyQuietly(): Promise<void> {
    try {
      await this.apply();
    } catch {
      // Reported already; the journal keeps what the files do not contain, and the next turn tries again.
    }
    // Also after a turn that began before the newest commits.
    if (this.#unsettled) this.#applySoon();
  }

  /** Brings the files up to date and drops what the journal no longer needs. @throws StorageError */
  apply(): Promise<void> {
    this.#applying ??= this.#apply().finally(() => {
      this.#applying = undefined;
    });
    return this.#applying;
  }

  async #apply(): Promise<void> {
    try {
      // From here on the journal's older segments and the snapshot are the same state.
      const { segments, snapshot } = await this.#alone(async () => {
        const before = await this.#journal.rotate();
        return { segments: before, snapshot: this.#overlay.snapshot() };
      });
      await this.#files.apply(snapshot);
      this.#overlay.settle(snapshot);
      await this.#alone(() => this.#journal.drop(segments));
      this.#lastFault = undefined;
    } catch (error) {
      const failure = fault(error, "writing records");
      if (this.#lastFault === undefined)
        this.#log.error("records could not be written to their files; the journal keeps them", {
          fault: failure.fault,
          reason: failure.message,
        });
      this.#lastFault = failure;
      throw failure;
    }
  }

  range(prefix: string, options: RangeOptions = {}): Promise<readonly Entry[]> {
    return readRange(this.#halves, prefix, options);
  }

  get backlog(): { readonly keys: number; readonly bytes: number } {
    return { keys: this.#overlay.size, bytes: this.#overlay.bytes };
  }

  /** Takes no more commits, finishes those under way, and brings the files up to date. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#committing;
    await this.#applying?.catch(() => {});
    if (this.#unsettled) await this.apply().catch(() => {});
    await this.abandon();
  }

  /** Ends with nothing more written, for a start that failed: what the files lack stays in the journal. */
  async abandon(): Promise<void> {
    this.#closed = true;
    this.#ended.abort();
    await this.#applying?.catch(() => {});
    await this.#writing;
    await this.#journal.close();
  }
}
