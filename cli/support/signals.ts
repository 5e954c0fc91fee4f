/** Waits for the end that a person asks for, and removes what a command has half made when its process ends before its time. */
import { rmSync } from "node:fs";

/** The exit codes of a process that a signal ends, as shells have them. */
const SIGNALS = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
const NAMES = Object.keys(SIGNALS) as (keyof typeof SIGNALS)[];

/** Resolves at the first SIGINT or SIGTERM, to the exit code of a process that it ends. The next one ends the process. */
export const stopAsked = (): Promise<number> => watchedSignals().stopped;

/** Does the same until it is disposed. */
export function watchedSignals(): Disposable & { readonly stopped: Promise<number> } {
  const { promise: stopped, resolve } = Promise.withResolvers<number>();
  const stop = (name: "SIGINT" | "SIGTERM"): void => {
    unwatch();
    resolve(SIGNALS[name]);
  };
  const unwatch = (): void => void process.off("SIGINT", stop).off("SIGTERM", stop);
  process.on("SIGINT", stop).on("SIGTERM", stop);
  return { stopped, [Symbol.dispose]: unwatch };
}

/** Ends something when this is disposed: `await using _ = atEnd(() => storage.dispose())`. */
export const atEnd = (end: () => Promise<unknown>): AsyncDisposable => ({
  [Symbol.asyncDispose]: async () => void (await end()),
});

interface UnfinishedOptions {
  /** True for a folder, which goes with all that is in it. @default false */
  readonly folder?: boolean;
  /** False where the command waits for signals itself; else a signal ends the process at once. @default true */
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
