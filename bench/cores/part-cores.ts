// Gives each thread of a process a part of a core, in a CPU cgroup of its own: what a machine with more cores would do.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** What a thread may use of each period, us: long enough for some turns of its event loop. */
const QUOTA_US = 5_000;
const V1 = "/sys/fs/cgroup/cpu";
const V2 = "/sys/fs/cgroup";

export interface PartCores {
  /** Threads that have a cgroup of their own, by name. */
  readonly threads: readonly string[];
  /** Removes the cgroups of a process that has ended. */
  remove(): void;
}

/**
 * @param parts a thread gets one of so many parts of a core
 * @throws Error where cgroups may not be used
 */
export function partCores(pid: number, parts: number): PartCores {
  const periodUs = QUOTA_US * parts;
  const isV1 = existsSync(join(V1, "cpu.cfs_quota_us"));
  const root = join(isV1 ? V1 : V2, `relay-bench-${pid}`);
  const made = [root];
  mkdirSync(root);
  // The parts are the relay's, whatever else the machine does.
  if (isV1) writeFileSync(join(root, "cpu.shares"), "100000");
  else {
    writeFileSync(join(V2, "cgroup.subtree_control"), "+cpu");
    writeFileSync(join(root, "cpu.weight"), "10000");
    writeFileSync(join(root, "cgroup.procs"), String(pid));
  }
  const threads: string[] = [];
  for (const tid of readdirSync(`/proc/${pid}/task`)) {
    const name = readFileSync(`/proc/${pid}/task/${tid}/comm`, "utf8").trim();
    const folder = join(root, tid);
    mkdirSync(folder);
    made.unshift(folder);
    if (isV1) {
      writeFileSync(join(folder, "cpu.cfs_period_us"), String(periodUs));
      writeFileSync(join(folder, "cpu.cfs_quota_us"), String(QUOTA_US));
      writeFileSync(join(folder, "tasks"), tid);
    } else {
      writeFileSync(join(folder, "cgroup.type"), "threaded");
      writeFileSync(join(root, "cgroup.subtree_control"), "+cpu");
      writeFileSync(join(folder, "cpu.max"), `${QUOTA_US} ${periodUs}`);
      writeFileSync(join(folder, "cgroup.threads"), tid);
    }
    threads.push(name);
  }
  return {
    threads,
    remove() {
      for (const folder of made) {
        try {
          rmdirSync(folder);
        } catch {
          // It is empty once the process has gone.
        }
      }
    },
  };
}
