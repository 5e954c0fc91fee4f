/** Starts processes that run the transforms of the config. A function cannot cross to a process, so each reads the config. */
import { spawn } from "node:child_process";
import { getCompileCacheDir } from "node:module";
import { dirname } from "node:path";
import { isSea } from "node:sea";
import { fileURLToPath } from "node:url";
import type { TransformLimits } from "../../core/model/transform.ts";
import type { SpawnTransforms } from "../../core/runtime/index.ts";
import type { Settings } from "../../config/environment.ts";

/** How the process was started: those that it starts read the same config by it. */
export interface StartedBy {
  /** Settings of the command line. */
  readonly flags: Settings;
  /** The environment before the config was read. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

/** The first message to a process: how to read the config, and how long a run may take. */
export interface ProcessTask {
  readonly by: StartedBy;
  readonly limits: TransformLimits;
}

/** Lists the variables of a process that runs transforms, none of them secret. It has no other. */
const HARMLESS = /^(?:PATH|HOME|TMPDIR|TZ|LANG|LANGUAGE|(?:LC|LD|DYLD|MALLOC|NODE|SSL_CERT)_\w+)$/;
export const isHarmless = (name: string): boolean => HARMLESS.test(name);

/** The argument of a single executable that makes it such a process. */
export const TRANSFORMS_ARGUMENT = "run-transforms";
/** Where transforms have a quarter of the memory for short-lived objects, MiB. */
const MOST_YOUNG_MB = 16;

/** @param by how the relay was started */
export function transformSpawner(by: StartedBy): SpawnTransforms {
  const { env } = by;
  return (limits) => {
    const young = Math.max(1, Math.min(MOST_YOUNG_MB, Math.floor(limits.memoryMb / 4)));
    const heap = `--max-old-space-size=${limits.memoryMb} --max-semi-space-size=${young}`;
    const cache = getCompileCacheDir();
    const entry = import.meta.url.endsWith(".ts") ? "./transform-entry.ts" : "./transform-entry.js";
    const args = isSea() ? [TRANSFORMS_ARGUMENT] : [fileURLToPath(new URL(entry, import.meta.url))];
    const wordy = ["debug", "trace"].includes(env["RELAY_LOG_LEVEL"] ?? "");
    const child = spawn(process.execPath, args, {
      cwd: by.cwd,
      env: {
        ...Object.fromEntries(Object.entries(env).filter(([name]) => isHarmless(name))),
        NODE_OPTIONS: `${env["NODE_OPTIONS"] ?? ""} --disable-sigusr1 ${heap}`.trim(),
        // The variable expects the parent folder.
        ...(cache !== undefined && { NODE_COMPILE_CACHE: dirname(cache) }),
      },
      // The output of a transform is for those who write it: the log of the relay has one form.
      stdio: ["ignore", wordy ? 2 : "ignore", wordy ? 2 : "ignore", "ipc"],
    });
    const task: ProcessTask = { by, limits };
    // Without the callback a process that ends at once would throw here.
    if (child.connected) child.send(task, () => undefined);
    return child;
  };
}
