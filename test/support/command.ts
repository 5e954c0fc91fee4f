/** Runs the command `relay` as people do: as a process, with an environment of its own. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** The command's file: the bundle of `test/packed-relay.ts`; outside of tests the checkout's own. */
export const ENTRY =
  process.env["RELAY_TEST_COMMAND"] ?? fileURLToPath(new URL("../../cli/relay.mjs", import.meta.url));

export interface Ran {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd?: string;
  /** Beside PATH and HOME; nothing else of ours is passed on. */
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** An executable in place of the command's file. */
  readonly program?: string;
  /** Programs to run it under (`strace -D …`). */
  readonly under?: readonly string[];
}

export interface Running extends AsyncDisposable {
  readonly pid: number;
  stdout(): string;
  stderr(): string;
  /** Resolves to the first match of what it has written so far, on either stream. @throws Error when it ends before */
  waitFor(pattern: RegExp): Promise<RegExpExecArray>;
  kill(signal: NodeJS.Signals): void;
  /** Closes the reading ends of both streams. */
  deafen(): void;
  /** Resolves when it has ended. */
  readonly ended: Promise<Ran>;
}

/**
 * What `start` would start itself once more with (cli/relay.mjs), and room for the young objects of a start. Given at once they
 * save a quarter of its CPU time. The torture, the package and the quick start are run without.
 */
const LEAN_FLAGS = ["--min-semi-space-size=16", "--max-semi-space-size=16"];
const LEAN_ENV = { MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: "131072" };

/** Starts the command and leaves it running; disposing ends it by force. */
export function startCommand(args: readonly string[], options: RunOptions = {}): Running {
  const { PATH = "", HOME = "" } = process.env;
  const command = options.program === undefined ? [process.execPath, ...LEAN_FLAGS, ENTRY] : [options.program];
  const [program = "", ...rest] = [...(options.under ?? []), ...command, ...args];
  const child = spawn(program, rest, {
    cwd: options.cwd,
    env: { PATH, HOME, ...(options.program === undefined && LEAN_ENV), ...options.env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  let over = false;
  const watchers = new Set<() => void>();
  const changed = (): void => watchers.forEach((watch) => watch());
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    stdout += chunk;
    changed();
  });
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    stderr += chunk;
    changed();
  });
  // It may end before it has read its input.
  child.stdin.on("error", () => undefined);
  child.stdin.end(options.input ?? "");
  const ended = new Promise<Ran>((resolve) => {
    child.once("close", (code, signal) => {
      over = true;
      resolve({ code: code ?? signal ?? "unknown", stdout, stderr });
      changed();
    });
  });
  return {
    pid: child.pid ?? 0,
    ended,
    stdout: () => stdout,
    stderr: () => stderr,
    kill: (signal) => void child.kill(signal),
    deafen() {
      child.stdout.destroy();
      child.stderr.destroy();
    },
    waitFor: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const found = pattern.exec(stdout) ?? pattern.exec(stderr);
          if (found === null && !over) return;
          watchers.delete(look);
          if (found !== null) resolve(found);
          else reject(new Error(`it ended without ${pattern}:\n${stdout}\n${stderr}`));
        };
        watchers.add(look);
        look();
      }),
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** Runs the command to its end. */
export const runCommand = (args: readonly string[], options: RunOptions = {}): Promise<Ran> =>
  startCommand(args, options).ended;
