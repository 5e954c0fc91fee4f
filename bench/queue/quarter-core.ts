// Gives a process a quarter of a core, by a CPU cgroup of its own: so several nodes can be measured on a small machine.
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const PERIOD_US = 100_000;
const QUOTA_US = PERIOD_US / 4;
const V1 = "/sys/fs/cgroup/cpu";
const V2 = "/sys/fs/cgroup";

const made: string[] = [];

/** @returns false where cgroups cannot be made here: the process is not limited then */
export function quarterCore(pid: number): boolean {
  const isV1 = existsSync(join(V1, "cpu.cfs_quota_us"));
  const folder = join(isV1 ? V1 : V2, `relay-bench-${pid}`);
  if (made.includes(folder)) return true;
  try {
    mkdirSync(folder);
    made.push(folder);
    if (isV1) writeFileSync(join(folder, "cpu.cfs_quota_us"), String(QUOTA_US));
    else writeFileSync(join(folder, "cpu.max"), `${QUOTA_US} ${PERIOD_US}`);
    writeFileSync(join(folder, "cgroup.procs"), String(pid));
    return true;
  } catch {
    return false;
  }
}

/** Removes the groups of processes that have ended. */
export function endGroups(): void {
  for (const folder of made.splice(0)) {
    try {
      rmdirSync(folder);
    } catch {
      // Its process is still ending.
    }
  }
}
