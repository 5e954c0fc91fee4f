/** What `/relay/status` and `relay status` show: this node, the storage, the backlog. */
import type { Lifecycle } from "./lifecycle.ts";
import { isoTime } from "../model/time.ts";
import * as path from "./path.ts";
import type { Get } from "./tokens.ts";

export async function relayStatus(
  get: Get,
  state: ReturnType<Lifecycle["state"]>,
): Promise<Readonly<Record<string, unknown>>> {
  const storage = get(path.STORAGE);
  const [figures, depth] = await Promise.all([storage.status(), storage.queue.depth()]);
  const { waiting, leased, oldestDueAt } = depth;
  return {
    node: {
      state,
      pid: process.pid,
      uptimeMs: Math.round(process.uptime() * 1_000),
      rssBytes: process.memoryUsage.rss(),
    },
    storage: { name: get(path.PLAN).storage.name, durability: storage.durability, ...figures },
    backlog: {
      waiting,
      leased,
      underWay: get(path.DISPATCHER).underWay(),
      oldestDueAt: oldestDueAt === undefined ? undefined : isoTime(oldestDueAt),
    },
  };
}
