/** What `/relay/status` and `relay status` show: this node, its parts, the storage and the backlog. */
import { hostname } from "node:os";
import type { HealthPart } from "../../api/resources/health.ts";
import { isoTime } from "../../model/time.ts";
import { VERSION } from "../../model/version.ts";
import type { Lifecycle } from "../lifecycle.ts";
import { threadsPart } from "../threads/node-thread.ts";
import type { DeliveryPath } from "./parts.ts";

export async function relayStatus(
  { plan, storage, dispatcher, thread }: Pick<DeliveryPath, "plan" | "storage" | "dispatcher" | "thread">,
  state: ReturnType<Lifecycle["state"]>,
  parts: Readonly<Record<string, HealthPart>>,
): Promise<Readonly<Record<string, unknown>>> {
  const [usage, depth] = await Promise.all([storage.status(), storage.queue.depth()]);
  const { waiting, leased, oldestDueAt } = depth;
  return {
    node: {
      state,
      version: VERSION,
      node: process.version,
      host: hostname(),
      pid: process.pid,
      uptimeMs: Math.round(process.uptime() * 1_000),
      rssBytes: process.memoryUsage.rss(),
      threads: thread && threadsPart(thread.state()).state,
    },
    parts,
    storage: { name: plan.storage.name, durability: storage.durability, ...usage },
    backlog: {
      waiting,
      leased,
      underWay: thread?.state().underWay ?? dispatcher.underWay(),
      oldestDueAt: oldestDueAt === undefined ? undefined : isoTime(oldestDueAt),
    },
  };
}
