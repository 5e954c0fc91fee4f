/** Faults in a running process, by strace: at its nth sync to disk it is killed, told of an error, or held up. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { findProgram } from "./needs.ts";

export interface Injected extends AsyncDisposable {
  /** Resolves when a sync has been done and the process is held up before it hears of it, for a fault `delay_exit`. */
  readonly delayed: Promise<void>;
  /** Kills a process that is held up, which would die after its delay only. Resolves when strace has let go of it. */
  kill(): Promise<void>;
}

/** @param fault as strace writes it: `signal=SIGKILL:when=2`. Resolves when the process is attached. */
export async function inject(pid: number, fault: string): Promise<Injected> {
  const strace = spawn(
    findProgram("strace") as string,
    ["-f", "-p", String(pid), "-e", "trace=fsync,fdatasync", "-e", `inject=fsync,fdatasync:${fault}`],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  const gone = once(strace, "close");
  let said = "";
  const delayed = Promise.withResolvers<void>();
  await new Promise<void>((resolve) => {
    strace.stderr.setEncoding("utf8").on("data", (chunk: string) => {
      said += chunk;
      if (said.includes("(DELAYED)")) delayed.resolve();
      if (/Process \d+ attached/.test(said)) resolve();
    });
    strace.once("close", () => resolve());
  });
  return {
    delayed: delayed.promise,
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
