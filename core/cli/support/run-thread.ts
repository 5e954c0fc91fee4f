/** What a thread does that runs a node, or sends for one. It loads what its task needs, and no more. */
import type { MessagePort } from "node:worker_threads";
import { loadConfig } from "../../../config/load.ts";
import { StartError } from "../../model/errors.ts";
import type { Plan } from "../../ports/plan.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { SpawnSideThread } from "../../runtime/side-thread/side-thread.ts";
import { EX_CONFIG } from "./exit.ts";
import { fixed, sideThreadSpawner, type ThreadData } from "./node-threads.ts";
import { transformSpawner } from "./transform-processes.ts";

/** Does the task of this thread. */
export async function runThread(data: ThreadData, parent: Pick<MessagePort, "postMessage">): Promise<void> {
  const { start, side, by, config } = data;
  const { env } = process;
  const io = { parent, clock: systemClock(), env };
  async function load(): Promise<Plan> {
    const { plan } = await loadConfig({ flags: by.flags, env, cwd: by.cwd });
    if (fixed(plan) !== config) {
      throw new StartError(EX_CONFIG, "the config was changed since the process started: restart the relay");
    }
    return plan;
  }
  if (side !== undefined) {
    const { runSideThread } = await import("../../runtime/side-thread/run-side-thread.ts");
    return runSideThread({ ...io, start: side, load });
  }
  if (start === undefined) throw new Error("a thread was started without a task");
  const lines = (text: string): void => parent.postMessage(text);
  const sideThread = (plan: Plan): SpawnSideThread => sideThreadSpawner(plan, by, lines);
  const { runNode } = await import("../../runtime/threads/run-node.ts");
  runNode({ ...io, start, transforms: transformSpawner(by), sideThread, load });
}
