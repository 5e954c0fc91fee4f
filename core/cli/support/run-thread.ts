/** Runs a node in a thread. */
import type { MessagePort } from "node:worker_threads";
import { loadConfig } from "../../../config/load.ts";
import { StartError } from "../../model/errors.ts";
import type { Plan } from "../../ports/plan.ts";
import { systemClock } from "../../runtime/clock.ts";
import { runNode } from "../../runtime/threads/run-node.ts";
import { EX_CONFIG } from "./exit.ts";
import { fixed, type ThreadData } from "./node-threads.ts";
import { transformSpawner } from "./transform-processes.ts";

export async function runThread(data: ThreadData, parent: Pick<MessagePort, "postMessage">): Promise<void> {
  const { start, by, config } = data;
  const { env } = process;
  async function load(): Promise<Plan> {
    const { plan } = await loadConfig({ flags: by.flags, env, cwd: by.cwd });
    if (fixed(plan) !== config) {
      throw new StartError(EX_CONFIG, "the config was changed since the process started: restart the relay");
    }
    return plan;
  }
  runNode({ parent, clock: systemClock(), env, start, transforms: transformSpawner(by), load });
}
