/** Writes the metrics, and those of the process, in Prometheus' text format. */
import type { MetricCell, Cells } from "./cells.ts";
import { promName } from "./metric-table.ts";

type Labels = Readonly<Record<string, string>>;

export function exposition(metrics: ReadonlyMap<string, Cells>): string {
  let text = processMetrics();
  for (const [name, cells] of metrics) {
    const { row } = cells;
    const prom = promName(name, row);
    text += head(prom, row.kind, row.help);
    for (const cell of cells.all()) {
      text += row.buckets === undefined ? sample(prom, cell.labels, cell.value) : histogram(prom, row.buckets, cell);
    }
  }
  return text;
}

/** Buckets are cumulative: each holds what fell under the bounds before it, too. */
function histogram(name: string, bounds: readonly number[], { labels, buckets, value }: MetricCell): string {
  let text = "";
  let count = 0;
  for (const [i, n] of buckets.entries()) {
    count += n;
    text += sample(`${name}_bucket`, { ...labels, le: String(bounds[i] ?? "+Inf") }, count);
  }
  return text + sample(`${name}_sum`, labels, value) + sample(`${name}_count`, labels, count);
}

/** Under the names that every Prometheus client uses. */
function processMetrics(): string {
  const cpu = process.cpuUsage();
  const memory = process.memoryUsage();
  const one = (name: string, kind: "counter" | "gauge", help: string, value: number): string =>
    head(name, kind, help) + sample(name, {}, value);
  return (
    one("process_cpu_seconds_total", "counter", "CPU time of the process, user and system", secondsOf(cpu)) +
    one("process_resident_memory_bytes", "gauge", "Resident memory", memory.rss) +
    one("nodejs_heap_size_used_bytes", "gauge", "Heap in use", memory.heapUsed) +
    one("nodejs_external_memory_bytes", "gauge", "Memory outside the heap", memory.external) +
    one("process_uptime_seconds", "gauge", "Since the process began", process.uptime())
  );
}

const secondsOf = ({ user, system }: NodeJS.CpuUsage): number => (user + system) / 1e6;

const head = (name: string, kind: string, help: string): string =>
  `# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}\n# TYPE ${name} ${kind}\n`;

function sample(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`);
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${number(value)}\n`;
}

const escaped = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');

const number = (value: number): string =>
  Number.isFinite(value) || Number.isNaN(value) ? String(value) : value > 0 ? "+Inf" : "-Inf";
