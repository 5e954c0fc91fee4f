// Who takes the CPU of a message: the threads of the relay, and the server that the message comes from.
import { readdir, readFile } from "node:fs/promises";

/** µs of CPU time so far. */
export interface Shares {
  /** The relay's main thread: the source with its client, and what every publication passes. */
  readonly main: number;
  /** The thread that writes to the storage. */
  readonly storage: number;
  /** V8's threads (garbage, compiling) and Node's. */
  readonly other: number;
  /** All processes below `servers`. */
  readonly server: number;
}

/** The kernel counts in hundredths of a second. */
const TICK_US = 10_000;

/** @param servers the process that has started the servers */
export async function readShares(relay: number, servers: number): Promise<Shares> {
  const shares = { main: 0, storage: 0, other: 0 };
  const threads = await readdir(`/proc/${relay}/task`);
  for (const thread of threads) {
    const found = await statOf(`/proc/${relay}/task/${thread}/stat`);
    if (found === undefined) continue;
    const part = Number(thread) === relay ? "main" : found.name === "sqlite" ? "storage" : "other";
    shares[part] += found.cpu;
  }
  return { ...shares, server: await cpuBelow(servers) };
}

export const between = (before: Shares, after: Shares, events: number): Shares => ({
  main: (after.main - before.main) / events,
  storage: (after.storage - before.storage) / events,
  other: (after.other - before.other) / events,
  server: (after.server - before.server) / events,
});

async function cpuBelow(top: number): Promise<number> {
  const parents = new Map<number, { readonly parent: number; readonly cpu: number }>();
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const found = await statOf(`/proc/${name}/stat`);
    if (found !== undefined) parents.set(Number(name), found);
  }
  const isBelow = (pid: number | undefined): boolean =>
    pid !== undefined && pid > 1 && (pid === top || isBelow(parents.get(pid)?.parent));
  let sum = 0;
  for (const [pid, { parent, cpu }] of parents) if (pid !== top && isBelow(parent)) sum += cpu;
  return sum;
}

/** `undefined` when the process or thread has ended. */
async function statOf(file: string) {
  try {
    const text = await readFile(file, "utf8");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return {
      name: text.slice(text.indexOf("(") + 1, text.lastIndexOf(")")),
      parent: Number(fields[1]),
      cpu: (Number(fields[11]) + Number(fields[12])) * TICK_US,
    };
  } catch {
    return undefined;
  }
}
