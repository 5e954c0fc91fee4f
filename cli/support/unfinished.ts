/** Removes what a command has half made when the process ends before its time. */
import { rmSync } from "node:fs";

/** The exit codes of a process that a signal ends, as shells have them. */
const SIGNALS = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
const NAMES = Object.keys(SIGNALS) as (keyof typeof SIGNALS)[];

interface UnfinishedOptions {
  /** Whether it is a folder, which goes with all that is in it. @default false */
  readonly folder?: boolean;
  /** Whether a signal ends the process at once: not where the command waits for signals itself. @default true */
  readonly signals?: boolean;
}

/** Removes the path when this is disposed, or when a signal or a closed pipe ends the process before that. */
export function unfinished(path: string, { folder = false, signals = true }: UnfinishedOptions = {}): Disposable {
  const remove = (): void => rmSync(path, { recursive: folder, force: true, maxRetries: folder ? 3 : 0 });
  const exited = (): void => {
    try {
      remove();
    } catch {
      // The process ends, and nobody can mend it any more.
    }
  };
  const end = (name: keyof typeof SIGNALS): void => process.exit(SIGNALS[name]);
  process.once("exit", exited);
  if (signals) for (const name of NAMES) process.once(name, end);
  return {
    [Symbol.dispose]() {
      process.off("exit", exited);
      for (const name of NAMES) process.off(name, end);
      remove();
    },
  };
}
