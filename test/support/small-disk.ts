/** A disk of a few megabytes that a test can fill up and make room on again: a tmpfs, which only root can mount. */
import { spawnSync } from "node:child_process";
import { closeSync, fstatSync, ftruncateSync, mkdtempSync, openSync, rmSync, rmdirSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface SmallDisk extends Disposable {
  readonly folder: string;
  /** Takes all the space that is left, but for so many bytes. */
  fill(leave?: number): void;
  /** Gives back what `fill` took. */
  clear(): void;
}

/** @returns why there can be none here, as text */
export function smallDisk(bytes: number): SmallDisk | string {
  const folder = mkdtempSync(join(tmpdir(), "relay-disk-"));
  const options = `size=${bytes},mode=700`;
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", folder], { encoding: "utf8" });
  if (mounted.status !== 0) {
    rmdirSync(folder);
    return `needs root to mount a small disk: ${mounted.stderr?.trim() ?? String(mounted.error)}`;
  }
  const filler = join(folder, "filler");
  return {
    folder,
    fill(leave = 0) {
      const file = openSync(filler, "w");
      try {
        for (let chunk = Buffer.alloc(65_536); chunk.length > 0;) {
          try {
            writeSync(file, chunk);
          } catch {
            chunk = chunk.subarray(0, chunk.length >> 1);
          }
        }
        ftruncateSync(file, Math.max(0, fstatSync(file).size - leave));
      } finally {
        closeSync(file);
      }
    },
    clear: () => rmSync(filler),
    [Symbol.dispose]() {
      // Lazily: a process that was killed may still be letting go of its files.
      spawnSync("umount", ["-l", folder]);
      rmdirSync(folder);
    },
  };
}
