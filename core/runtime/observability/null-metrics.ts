/** Metrics that count nothing: for tests and for commands that serve nobody. */
import type { Metrics } from "../../ports/plugin.ts";

export const nullMetrics: Metrics = { count: () => undefined, gauge: () => undefined, observe: () => undefined };
