/** Runs the relay as a child process, in the same process group, so that Ctrl+C ends both. */
import { spawn } from "node:child_process";
import { isSea } from "node:sea";
import { fileURLToPath } from "node:url";
import { within } from "../../core/lib/within.ts";
import type { CliEnvironment } from "../support/environment.ts";

const STOP_MS = 12_000;
const MOST_TEXT = 100_000;

export function spawnRelay(args: readonly string[], { env, clock }: CliEnvironment) {
  // This shell's settings are for another relay.
  const clean = Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith("RELAY_")));
  // A single executable is its own entry.
  const entry = isSea() ? [] : [fileURLToPath(new URL("../relay.mjs", import.meta.url))];
  // Its input ends with this process, also when that is killed, and the relay then.
  const child = spawn(process.execPath, [...entry, ...args, "--until-stdin-ends"], { env: clean, stdio: "pipe" });
  child.stdin.on("error", () => undefined);
  let text = "";
  const listening = Promise.withResolvers<string>();
  const take = (chunk: string): void => {
    text = (text + chunk).slice(-MOST_TEXT);
    const found = /listening at (http[^\s"]+)["\n]/.exec(text);
    if (found?.[1] !== undefined) listening.resolve(found[1]);
  };
  child.stdout.setEncoding("utf8").on("data", take);
  child.stderr.setEncoding("utf8").on("data", take);
  const ended = new Promise<number | string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, signal) => resolve(code ?? signal ?? "unknown"));
  });
  void ended.then((code) => listening.reject(new Error(`the relay ended at its start (${code})`)));
  // The caller may never wait for it.
  listening.promise.catch(() => undefined);
  const orphan = (): void => void child.kill("SIGKILL");
  // First of all: what else ends with this process may remove the relay's folder.
  process.prependOnceListener("exit", orphan);
  void ended.then(() => process.off("exit", orphan));
  return {
    /** Resolves to the relay's URL. @throws Error when it ends before */
    listening: listening.promise,
    /** Resolves to its exit code, however it ends. */
    ended,
    /** Returns the end of the text that it wrote so far. */
    output: () => text,
    /** Asks it to stop and resolves to its exit code; by force after some seconds. May be called twice. */
    async stop() {
      // Not a signal: Ctrl+C has sent one already, and a second one would end the relay at once.
      child.stdin.end();
      if (!(await within(clock, STOP_MS, ended))) child.kill("SIGKILL");
      return ended;
    },
  };
}
