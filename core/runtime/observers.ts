/** What the relay tells about itself: one wide log line a step, and figures for Prometheus. Handed to rooms and plug-ins. */
export { createLog } from "./observers/log.ts";
export type { LogLevel, LogOptions, RelayLog } from "./observers/log.ts";
export { createMetrics, nullMetrics } from "./observers/metrics.ts";
export type { RelayMetrics } from "./observers/metrics.ts";
