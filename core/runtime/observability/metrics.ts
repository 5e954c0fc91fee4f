/** The metrics for Prometheus: counts them by the names of the table, and writes them out when they are read. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { MetricDeclaration, Metrics } from "../../ports/plugin.ts";
import { Cells } from "./cells.ts";
import { exposition } from "./exposition.ts";
import { METRIC_TABLE, PLUGIN_BUCKETS } from "./metric-table.ts";

export interface RelayMetrics extends Metrics {
  /** Adds metrics of a plug-in. One that is there already is kept as it is. @param declarations without problems */
  declare(declarations: readonly MetricDeclaration[]): void;
  /** All metrics in Prometheus' text format. */
  text(): Promise<string>;
  /** Awaits `refresh` before each reading, for gauges that are read, not counted. One that fails is passed over. */
  onRead(refresh: () => Promise<void> | void): void;
  /** Lets go of the event-loop monitor. May be called twice. */
  dispose(): void;
}

/** The `Content-Type` of `/metrics`, for what `text()` returns. */
export const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Time between two samples of the event loop, ms. Each wakes the process: with 20 ms they took half a per cent of a core at rest. */
const LOOP_STEP_MS = 100;

export function createMetrics(): RelayMetrics {
  const metricsByName = new Map(Object.entries(METRIC_TABLE).map(([name, row]) => [name, new Cells(row)]));
  const refreshers: (() => Promise<void> | void)[] = [];
  const loop = monitorEventLoopDelay({ resolution: LOOP_STEP_MS });
  loop.enable();

  /** Brings the gauges that are read up to date. */
  async function refresh(): Promise<void> {
    await Promise.all(refreshers.map(async (refresher) => refresher()).map((done) => done.catch(() => undefined)));
    for (const [quantile, percent] of [
      ["0.5", 50],
      ["0.99", 99],
      ["1", 100],
    ] as const) {
      // Node records the time from one look to the next, the step included.
      const delayMs = Math.max(0, loop.percentile(percent) / 1e6 - LOOP_STEP_MS);
      metrics.gauge("event_loop_delay_seconds", delayMs / 1_000, { quantile });
    }
    loop.reset();
  }

  const metrics: RelayMetrics = {
    declare(declarations) {
      for (const { name, type: kind, help, labels, series, buckets = PLUGIN_BUCKETS } of declarations) {
        if (metricsByName.has(name)) continue;
        const row = { kind, help, labels, series };
        metricsByName.set(name, new Cells(kind === "histogram" ? { ...row, buckets } : row));
      }
    },
    count(name, labels, by = 1) {
      const cells = metricsByName.get(name);
      if (cells?.row.kind === "counter" && Number.isFinite(by) && by >= 0) cells.at(labels).value += by;
    },
    gauge(name, value, labels) {
      const cells = metricsByName.get(name);
      if (cells?.row.kind === "gauge" && typeof value === "number") cells.at(labels).value = value;
    },
    observe(name, seconds, labels) {
      const cells = metricsByName.get(name);
      const bounds = cells?.row.buckets;
      if (cells === undefined || bounds === undefined || !Number.isFinite(seconds)) return;
      const cell = cells.at(labels);
      let i = 0;
      while (i < bounds.length && seconds > (bounds[i] as number)) i++;
      cell.buckets[i] = (cell.buckets[i] as number) + 1;
      cell.value += seconds;
    },
    async text() {
      await refresh();
      return exposition(metricsByName);
    },
    onRead: (refresher) => void refreshers.push(refresher),
    dispose: () => void loop.disable(),
  };
  return metrics;
}
