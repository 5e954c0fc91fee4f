/** Quarantines what cannot be trusted: it is moved, never deleted, and always reported. */
import { hash } from "node:crypto";
import { existsSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { syncFolder } from "../../../core/ports/folder.ts";
import type { Log } from "../../../core/ports/plugin.ts";

export type Quarantine = ReturnType<typeof quarantine>;

/** @param now epoch ms; keeps names of different runs apart */
export function quarantine(dir: string, log: Log, now: number) {
  let count = readdirSync(dir).length;
  const report = (path: string, why: string, target: string): void => {
    count++;
    log.error("moved to quarantine", { path, why, target });
  };
  return {
    /** How many things are there, from earlier runs too. */
    get count() {
      return count;
    },
    /** Moves a file, folder or link unchanged. Synced, so that a power cut does not bring it back among trusted files. */
    move(path: string, why: string): void {
      const target = join(dir, `${now}-${count}-${basename(path)}`);
      renameSync(path, target);
      syncFolder(dir);
      syncFolder(dirname(path));
      report(path, why, target);
    },
    /** Keeps a copy of bytes whose file stays in use; only one, even when a failing start is repeated. */
    copy(path: string, bytes: Uint8Array, why: string): void {
      const target = join(dir, `${hash("sha256", bytes).slice(0, 16)}-${basename(path)}`);
      if (existsSync(target)) return;
      writeFileSync(target, bytes, { mode: 0o600, flag: "wx" });
      report(path, why, target);
    },
  };
}
