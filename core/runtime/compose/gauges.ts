/** Gauges that are asked for when figures are read: backlog, leases, readiness, space. */
import { statfs } from "node:fs/promises";
import type { HealthPart } from "../../api/resources/health.ts";
import { VERSION } from "../../model/version.ts";
import type { RelayMetrics } from "../observability/index.ts";
import * as path from "./delivery-path.ts";
import type { Get } from "./container.ts";

export interface GaugeDeps {
  readonly metrics: Pick<RelayMetrics, "gauge" | "onRead">;
  readonly get: Get;
  readonly readiness: () => Promise<Readonly<Record<string, HealthPart>>>;
  /** Lines of the log that were lost. */
  readonly dropped: () => number;
}

/** From now on each reading refreshes them. One that cannot be had keeps its last value, and the others are told. */
export function refreshGauges({ metrics, get, readiness, dropped }: GaugeDeps): void {
  const { dataDir } = get(path.PLAN);
  metrics.gauge("build_info", 1, { version: VERSION, node: process.version });
  metrics.onRead(() => {
    metrics.gauge("leases", get(path.DISPATCHER).underWay());
    metrics.gauge("log_lines_dropped", dropped());
  });
  metrics.onRead(async () => {
    const { waiting, oldestDueAt } = await get(path.STORAGE).queue.depth();
    metrics.gauge("backlog", waiting);
    const now = get(path.CLOCK_TOKEN).now();
    metrics.gauge("oldest_due_seconds", oldestDueAt === undefined ? 0 : Math.max(0, now - oldestDueAt) / 1_000);
  });
  metrics.onRead(async () => {
    const ready = Object.values(await readiness()).every((part) => part.ready);
    metrics.gauge("ready", ready ? 1 : 0);
  });
  metrics.onRead(async () => {
    const { bytes, usedBytes } = await get(path.STORAGE).status();
    const used = bytes ?? usedBytes;
    if (typeof used === "number") metrics.gauge("storage_bytes", used);
  });
  metrics.onRead(async () => {
    const { bavail, bsize } = await statfs(dataDir);
    metrics.gauge("disk_free_bytes", bavail * bsize);
  });
}
