/** Adds the metrics of several threads to those of one process: counters and histograms are sums, gauges the highest. */
import { Cells } from "../observability/cells.ts";
import { exposition } from "../observability/exposition.ts";
import type { MetricsSnapshot } from "../observability/index.ts";

/** Gauges of which each thread has a part. */
const PARTS: ReadonlySet<string> = new Set(["leases"]);

interface MergedMetrics {
  /** Adds the last reading of a thread that has ended, so that no counter goes back. */
  add(last: MetricsSnapshot): void;
  /** All of them in Prometheus' text format. */
  text(living: readonly MetricsSnapshot[]): string;
}

export function createMergedMetrics(): MergedMetrics {
  const ended = new Map<string, Cells>();
  return {
    add: (last) => merge(ended, last, false),
    text(living) {
      const all = new Map<string, Cells>();
      const kept = [...ended].map(([name, cells]) => [name, cells.row, [...cells.all()]] as const);
      for (const one of [...living, { metrics: kept, heapUsed: 0 }]) merge(all, one, true);
      return exposition(
        all,
        living.reduce((sum, { heapUsed }) => sum + heapUsed, 0),
      );
    },
  };
}

function merge(into: Map<string, Cells>, { metrics }: MetricsSnapshot, gauges: boolean): void {
  for (const [name, row, cells] of metrics) {
    if (row.kind === "gauge" && !gauges) continue;
    let merged = into.get(name);
    if (merged === undefined) into.set(name, (merged = new Cells(row)));
    for (const { labels, value, buckets } of cells) {
      const cell = merged.at(labels);
      if (row.kind === "gauge" && !PARTS.has(name)) cell.value = Math.max(cell.value, value);
      else cell.value += value;
      for (const [i, n] of buckets.entries()) cell.buckets[i] = (cell.buckets[i] ?? 0) + n;
    }
  }
}
