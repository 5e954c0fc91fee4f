/** The entry of this folder: the log and the metrics, of which a relay makes one each. */
export { createLog } from "./log.ts";
export type { RelayLog } from "./log.ts";
export { createMetrics } from "./metrics.ts";
export { nullMetrics } from "./null-metrics.ts";
export type { RelayMetrics } from "./metrics.ts";
