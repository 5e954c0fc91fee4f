/** Hands a source a log, metrics and a storage to look into; whatever else it asks for is refused. */
import type { PluginContext } from "../../core/ports/plugin.ts";
import { testClock } from "./clock.ts";
import { pluginContext } from "./plugin-context.ts";
import { quietLog, quietMetrics } from "./quiet.ts";
import { shelf } from "./shelf.ts";

export const context = (given: Partial<PluginContext> = {}): PluginContext =>
  pluginContext(given.clock ?? testClock(), "/nonexistent", {
    log: quietLog(),
    metrics: quietMetrics(),
    storage: shelf(),
    ...given,
  });
