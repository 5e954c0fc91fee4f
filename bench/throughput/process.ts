// Children of the benchmark, and what the kernel says about a process.
import { type ChildProcess, fork } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

const children = new Set<ChildProcess>();

/** A child that answers each message with one message. */
export interface Peer {
  ask<Reply>(message: object): Promise<Reply>;
  end(): void;
}

export function start(script: string): Peer {
  const child = fork(join(import.meta.dirname, script), {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    serialization: "advanced",
  });
  own(child);
  return {
    ask: <Reply>(message: object) =>
      new Promise<Reply>((resolve, reject) => {
        const failed = (code: number | null): void => reject(new Error(`${script} ended with ${code}`));
        child.once("exit", failed);
        child.once("message", (reply) => {
          child.off("exit", failed);
          resolve(reply as Reply);
        });
        child.send(message);
      }),
    end: () => void child.kill("SIGKILL"),
  };
}

/** Takes a child into the care of `endAll`. */
export function own(child: ChildProcess): void {
  children.add(child);
  child.once("exit", () => children.delete(child));
}

export function endAll(): void {
  for (const child of children) child.kill("SIGKILL");
}

/** CPU time of a process, all threads, in µs. The kernel counts in hundredths of a second. */
export async function cpuMicroseconds(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

export interface Memory {
  readonly rss: number;
  /** The part of it that is not pages of files, which depend on what the machine has cached. */
  readonly anonymous: number;
}

/** In MB. */
export async function memoryOf(pid: number): Promise<Memory> {
  const text = await readFile(`/proc/${pid}/status`, "utf8");
  const field = (name: string): number => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(text)?.[1]) / 1_024;
  return { rss: field("VmRSS"), anonymous: field("RssAnon") };
}

/** @param percent 0…100 */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return ((sorted[(sorted.length - 1) >> 1] as number) + (sorted[sorted.length >> 1] as number)) / 2;
}
