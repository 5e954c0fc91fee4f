/**
 * The entry of this folder: it exports the log (one JSON line for each step of an event) and the metrics (for Prometheus).
 * A relay makes one of each and hands them to its rooms and plug-ins.
 */
export { createLog } from "./log.ts";
export type { RelayLog } from "./log.ts";
export { createMetrics } from "./metrics.ts";
export { nullMetrics } from "./null-metrics.ts";
export type { RelayMetrics } from "./metrics.ts";
