/** What the relay tells about itself: one wide log line a step, and figures for Prometheus. Handed to rooms and plug-ins. */
export { createLog } from "./log.ts";
export type { LogLevel, LogOptions, RelayLog } from "./log.ts";
export { createMetrics, nullMetrics } from "./metrics.ts";
export type { RelayMetrics } from "./metrics.ts";
