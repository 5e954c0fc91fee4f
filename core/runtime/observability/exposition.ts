/** Writes figures out through prom-client, as the report of one worker, together with those of the process itself. */
import type { MetricCell, Cells } from "./cells.ts";
import { promName } from "./metric-table.ts";

interface Value {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly metricName?: string;
}
interface Report {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly values: readonly Value[];
  readonly aggregator: "first";
}

export async function readOut(figures: ReadonlyMap<string, Cells>): Promise<string> {
  const { AggregatorRegistry } = await import("prom-client");
  const reports: Report[] = process_();
  for (const [name, cells] of figures) {
    const { figure } = cells;
    const prom = promName(name, figure);
    const values = [...cells.all()].flatMap((cell) =>
      figure.buckets === undefined
        ? [{ value: cell.value, labels: cell.labels }]
        : histogram(prom, figure.buckets, cell),
    );
    reports.push({ name: prom, help: figure.help, type: figure.kind, values, aggregator: "first" });
  }
  return await AggregatorRegistry.aggregate([reports]).metrics();
}

function histogram(name: string, bounds: readonly number[], cell: MetricCell): Value[] {
  let count = 0;
  const values: Value[] = cell.buckets.map((n, i) => {
    count += n;
    return { value: count, labels: { ...cell.labels, le: bounds[i] ?? "+Inf" }, metricName: `${name}_bucket` };
  });
  values.push({ value: cell.value, labels: cell.labels, metricName: `${name}_sum` });
  values.push({ value: count, labels: cell.labels, metricName: `${name}_count` });
  return values;
}

/** Under the names that every Prometheus client uses. */
function process_(): Report[] {
  const cpu = process.cpuUsage();
  const memory = process.memoryUsage();
  const one = (name: string, type: "counter" | "gauge", help: string, value: number): Report => ({
    name,
    help,
    type,
    values: [{ value, labels: {} }],
    aggregator: "first",
  });
  return [
    one(
      "process_cpu_seconds_total",
      "counter",
      "CPU time of the process, user and system",
      (cpu.user + cpu.system) / 1e6,
    ),
    one("process_resident_memory_bytes", "gauge", "Resident memory", memory.rss),
    one("nodejs_heap_size_used_bytes", "gauge", "Heap in use", memory.heapUsed),
    one("nodejs_external_memory_bytes", "gauge", "Memory outside the heap", memory.external),
    one("process_uptime_seconds", "gauge", "Since the process began", process.uptime()),
  ];
}
