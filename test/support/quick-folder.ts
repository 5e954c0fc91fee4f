/** Where the folders of tests are: in memory where there is room, for a disk that others keep busy makes each sync wait. */
import { accessSync, constants, readFileSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";

const MEMORY = "/dev/shm";
const ENOUGH_BYTES = 2 * 1024 ** 3;

/**
 * The folder for temporary files. What a power cut leaves is the business of test/power-loss, which does not ask the disk.
 * `RELAY_TEST_FOLDER` names another one.
 */
export function quickFolder(): string {
  const chosen = process.env["RELAY_TEST_FOLDER"];
  if (chosen !== undefined) return chosen;
  try {
    accessSync(MEMORY, constants.R_OK | constants.W_OK);
    const mount = readFileSync("/proc/mounts", "utf8")
      .split("\n")
      .map((line) => line.split(" "))
      .findLast(([, at]) => at === MEMORY);
    // Some tests run programs from their folder, which a mount may forbid.
    if (mount?.[2] !== "tmpfs" || mount[3]?.split(",").includes("noexec") !== false) return tmpdir();
    const { bavail, bsize } = statfsSync(MEMORY);
    const available = Number(/MemAvailable:\s+(\d+)/.exec(readFileSync("/proc/meminfo", "utf8"))?.[1]) * 1024;
    return Math.min(bavail * bsize, available / 2) >= ENOUGH_BYTES ? MEMORY : tmpdir();
  } catch {
    return tmpdir();
  }
}
