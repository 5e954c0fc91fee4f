/** Folders in memory where there is room for them: thousands of files are written there, and no test needs them on a disk. */
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

const MEMORY = "/dev/shm";
const ROOM = 512 << 20;

function place(): string {
  try {
    accessSync(MEMORY, constants.W_OK);
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize > ROOM ? MEMORY : tmpdir();
  } catch {
    return tmpdir();
  }
}

/** Makes fresh folders, which are gone when the test file ends. */
export function scratchFolders(): () => string {
  const folder = mkdtempSync(join(place(), "relaybox-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  let made = 0;
  return () => {
    const path = join(folder, String(made++));
    mkdirSync(path, { mode: 0o700 });
    return path;
  };
}
