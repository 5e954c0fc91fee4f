/** What `/relay/status` and `relay status` show: this node, the storage, the backlog. */
import { hostname } from "node:os";
import type { HealthPart } from "../../api/resources/health.ts";
import { isoTime } from "../../model/time.ts";
import { VERSION } from "../../model/version.ts";
import type { Lifecycle } from "../lifecycle.ts";
import * as path from "./delivery-path.ts";
import type { Get } from "./container.ts";

export async function relayStatus(
  get: Get,
  state: ReturnType<Lifecycle["state"]>,
  parts: Readonly<Record<string, HealthPart>>,
): Promise<Readonly<Record<string, unknown>>> {
  const storage = get(path.STORAGE);
  const [figures, depth] = await Promise.all([storage.status(), storage.queue.depth()]);
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
    },
    parts,
    storage: { name: get(path.PLAN).storage.name, durability: storage.durability, ...figures },
    backlog: {
      waiting,
      leased,
      underWay: get(path.DISPATCHER).underWay(),
      oldestDueAt: oldestDueAt === undefined ? undefined : isoTime(oldestDueAt),
    },
  };
}
