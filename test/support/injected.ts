/** Faults in a running process, by strace: at a sync to disk it is killed, told of an error, or held up. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import { findProgram } from "./needs.ts";

export interface Injected extends AsyncDisposable {
  /** Resolves when the text has been written. For a fault `delay_enter` its sync is held up before it happens. */
  readonly written: Promise<void>;
  /**
   * Resolves when a sync has been done behind a write of the text, and the process is held up before it hears of it, for a
   * fault `delay_exit`. A relay also syncs what a test does not ask for, such as its statistics at each full minute.
   */
  readonly delayed: Promise<void>;
  /** Returns the files that were synced, in order, each with or without the text written before by its thread. */
  syncs(): readonly string[];
  /** Kills a process that is held up, which would die after its delay only. Resolves when strace has let go of it. */
  kill(): Promise<void>;
}

/**
 * @param fault as strace writes it: `signal=SIGKILL:when=2`
 * @param text is in the first write that counts as `written`, and whose sync counts as `delayed`. @default any write
 * Resolves when the process is attached.
 */
export async function inject(pid: number, fault: string, text = ""): Promise<Injected> {
  const calls = ["-e", "trace=fsync,fdatasync,pwrite64", "-e", `inject=fsync,fdatasync:${fault}`];
  const strace = spawn(findProgram("strace") as string, ["-f", "-y", "-s", "5000", "-p", String(pid), ...calls], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const gone = once(strace, "close");
  const attached = Promise.withResolvers<void>();
  const written = Promise.withResolvers<void>();
  const delayed = Promise.withResolvers<void>();
  void gone.then(() => attached.resolve());
  const syncs: string[] = [];
  /** The threads that have written the text. */
  const writers = new Set<string>();
  createInterface({ input: strace.stderr }).on("line", (line) => {
    if (/Process \d+ attached/.test(line)) attached.resolve();
    const [, thread = ""] = /^\[pid +(\d+)\]/.exec(line) ?? [];
    if (line.includes("pwrite64(") && line.includes(text)) {
      writers.add(thread);
      written.resolve();
    }
    const [, file] = /sync\(\d+<([^>]+)>/.exec(line) ?? [];
    if (file !== undefined) syncs.push(`${basename(file)} ${writers.has(thread) ? "with" : "without"} it`);
    if (writers.has(thread) && line.includes("(DELAYED)")) delayed.resolve();
  });
  await attached.promise;
  return {
    written: written.promise,
    delayed: delayed.promise,
    syncs: () => syncs,
    async kill() {
      process.kill(pid, "SIGKILL");
      strace.kill("SIGKILL");
      await gone;
    },
    async [Symbol.asyncDispose]() {
      strace.kill("SIGTERM");
      // It may hang over a process that is dying under it; killed, it lets go.
      const force = setTimeout(() => strace.kill("SIGKILL"), 2_000);
      await gone;
      clearTimeout(force);
    },
  };
}
