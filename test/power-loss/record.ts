/** Runs a process under strace and reads what it did to the disk. */
import { spawn } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { CALLS, stepsOf, type Step } from "./trace.ts";

export interface Recording {
  /** Where strace may write. */
  readonly trace: string;
  /** The node process: its script and arguments. */
  readonly args: readonly string[];
  /** Faults to inject, as strace's `-e inject=` takes them; counted by thread. */
  readonly inject?: readonly string[];
}

/** @returns every step of the process, in order. One thread makes its file calls, so that those come in one order. */
export async function record({ trace, args, inject = [] }: Recording): Promise<readonly Step[]> {
  const words = ["-f", "-qq", "-xx", "-s", "33554432", "-o", trace, "-e", `trace=${CALLS.join(",")}`];
  for (const one of inject) words.push("-e", `inject=${one}`);
  const env = { ...process.env, NODE_OPTIONS: "", UV_THREADPOOL_SIZE: "1" };
  const child = spawn("strace", [...words, process.execPath, ...args], { stdio: ["ignore", "ignore", "pipe"], env });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const code = await new Promise<number | null>((resolve) => void child.on("close", resolve));
  const text = readFileSync(trace, "utf8");
  rmSync(trace);
  const killed = inject.some((one) => one.includes("signal=SIGKILL"));
  if (code !== 0 && !killed) throw new Error(`the recorded process ended with ${code}: ${stderr}`);
  return [...stepsOf(text)];
}
