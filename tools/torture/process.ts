// Processes that a fault may end, stop or wake, and that end with us.
import { spawn, type ChildProcess } from "node:child_process";

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

export interface Started {
  readonly pid: number;
  /** The end of what it wrote, for reports. */
  said(): string;
  alive(): boolean;
  signal(name: NodeJS.Signals): void;
  /** Resolves when it is gone. */
  readonly gone: Promise<void>;
}

const KEPT = 4_000;

export function start(
  command: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv; readonly heard?: (text: string) => void } = {},
): Started {
  const [program = "", ...args] = command;
  const child = spawn(program, args, { cwd: options.cwd, env: options.env, stdio: ["ignore", "pipe", "pipe"] });
  running.add(child);
  let text = "";
  const hear = (chunk: Buffer): void => {
    text = (text + chunk.toString()).slice(-KEPT);
    options.heard?.(text);
  };
  child.stdout?.on("data", hear);
  child.stderr?.on("data", hear);
  let alive = true;
  const gone = new Promise<void>((resolve) => {
    const end = (): void => {
      alive = false;
      running.delete(child);
      resolve();
    };
    child.once("close", end).once("error", end);
  });
  return {
    pid: child.pid ?? 0,
    said: () => text,
    alive: () => alive,
    signal: (name) => void (alive && child.kill(name)),
    gone,
  };
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
