/** The plan of one node of several in a process: bounds of the process are shared out, and its storage is elsewhere. */
import type { MessagePort } from "node:worker_threads";
import type { Clock } from "../../ports/clock.ts";
import type { Plan } from "../../ports/plan.ts";
import type { ThreadStart } from "./node-thread.ts";
import { openStorageClient } from "./storage-client.ts";
import { isOwn, own } from "../../ports/own-plugins.ts";

/** Room for two batches: see `intake.maxBodyBytes`. */
const LEAST_BODY_BYTES = 16_777_216;
/** What the process needs of `server.shutdownMs` once its nodes have stopped, ms. */
export const CLOSING_MS = 500;

export function threadPlan(
  plan: Plan,
  { index, count, port, storage }: Pick<ThreadStart, "index" | "count" | "port" | "storage">,
  clock: Clock,
): Plan {
  const { server, delivery, intake, metrics } = plan;
  const share = (all: number): number => Math.max(1, Math.floor(all / count));
  return {
    ...plan,
    server: {
      ...server,
      port: port ?? server.port,
      maxConnections: share(server.maxConnections),
      shutdownMs: Math.max(server.shutdownMs / 2, server.shutdownMs - CLOSING_MS),
    },
    delivery: {
      ...delivery,
      concurrency: share(delivery.concurrency),
      ...(delivery.perSubscription !== undefined && { perSubscription: share(delivery.perSubscription) }),
    },
    intake: { ...intake, maxBodyBytes: Math.max(LEAST_BODY_BYTES, share(intake.maxBodyBytes)) },
    // A port of its own is served by the first thread, for all of them.
    metrics: index === 0 || metrics.port === undefined ? metrics : {},
    storage: storage === undefined ? plan.storage : elsewhere(plan.storage, storage, clock),
  };
}

function elsewhere(storage: Plan["storage"], port: MessagePort, clock: Clock): Plan["storage"] {
  const client: Plan["storage"] = {
    ...storage,
    setup: async (ctx) => openStorageClient(port, clock, await storage.reads?.(ctx)),
  };
  return isOwn(storage) ? own(client) : client;
}
