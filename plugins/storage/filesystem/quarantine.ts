/** Quarantines what cannot be trusted: it is moved, never deleted, and always reported. */
import { hash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { syncFolder } from "../../../core/ports/folder.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import { PRIVATE_FILE, PRIVATE_FOLDER } from "./disk.ts";

export class Quarantine {
  readonly #dir: string;
  readonly #log: Log;
  readonly #stamp: string;
  #count = 0;

  /** @param now epoch ms; keeps names of different runs apart */
  constructor(dir: string, log: Log, now: number) {
    this.#dir = dir;
    this.#log = log;
    this.#stamp = String(now);
    mkdirSync(dir, { recursive: true, mode: PRIVATE_FOLDER });
    this.#count = readdirSync(dir).length;
  }

  /** Returns how many things are there, from earlier runs too. */
  get count(): number {
    return this.#count;
  }

  /** Moves a file, folder or link unchanged. Synced, so that a power cut does not bring it back among trusted files. */
  readonly move = (path: string, why: string): void => {
    const target = this.#target(path);
    renameSync(path, target);
    syncFolder(this.#dir);
    syncFolder(dirname(path));
    this.#report(path, why, target);
  };

  /** Keeps a copy of bytes whose file stays in use; only one, even when a failing start is repeated. */
  readonly copy = (path: string, bytes: Uint8Array, why: string): void => {
    const target = join(this.#dir, `${hash("sha256", bytes).slice(0, 16)}-${basename(path)}`);
    if (existsSync(target)) return;
    writeFileSync(target, bytes, { mode: PRIVATE_FILE, flag: "wx" });
    this.#report(path, why, target);
  };

  #target(path: string): string {
    return join(this.#dir, `${this.#stamp}-${this.#count}-${basename(path)}`);
  }

  #report(path: string, why: string, target: string): void {
    this.#count++;
    this.#log.error("moved to quarantine", { path, why, target });
  }
}
