/** The program of a process that runs the transforms of the config: it reads the config, and calls them as the relay asks. */
import { setPriority } from "node:os";
import { readConfig } from "../../config/read-file.ts";
import type { Transform } from "../../core/model/transform.ts";
import {
  createRunner,
  freezeShared,
  type ProcessStart,
  type RunAnswer,
  type RunRequest,
} from "../../core/runtime/index.ts";
import { isHarmless, type ProcessTask } from "./transform-processes.ts";

/** Transforms give way to the relay where there is not enough of the processor. */
const PRIORITY = 5;

/** Waits for its task, then runs what it is asked to, until its relay is gone. */
function runTransforms(): void {
  const send = process.send?.bind(process) as (message: ProcessStart | RunAnswer) => void;
  // Only this file speaks to the relay.
  delete process.send;
  process.on("disconnect", () => process.exit());
  try {
    setPriority(PRIORITY);
  } catch {
    // Not every system lets a process do that.
  }
  process.once("message", (task: ProcessTask) => {
    void begin(task, send);
  });
}

async function begin({ by, limits }: ProcessTask, send: (message: ProcessStart | RunAnswer) => void): Promise<void> {
  try {
    const others = Object.entries(by.env).filter(([name, value]) => value !== undefined && !isHarmless(name));
    Object.assign(process.env, Object.fromEntries(others));
    const { config } = await readConfig({ flags: by.flags, env: process.env, cwd: by.cwd });
    for (const [name] of others) delete process.env[name];
    const { transforms = {} } = config as { readonly transforms?: Readonly<Record<string, Transform>> };
    freezeShared();
    const run = createRunner(transforms, limits.timeoutMs);
    process.on("message", (request: RunRequest) => send(run(request)));
    send({ ready: true });
  } catch (error) {
    send({ ready: false, reason: error instanceof Error ? error.message : "the config cannot be read" });
  }
}

runTransforms();
