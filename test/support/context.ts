/** What a plug-in is handed, for tests of plug-ins by themselves. What a test does not bring along is missing loudly. */
import type { PluginContext } from "../../core/ports/plugin.ts";
import { testClock } from "./clock.ts";
import { quietLog, quietMetrics } from "./quiet.ts";
import { shelf } from "./shelf.ts";

export function context(given: Partial<PluginContext> = {}): PluginContext {
  const missing = (): never => {
    throw new Error("this test did not expect it");
  };
  return {
    clock: testClock(),
    log: quietLog(),
    metrics: quietMetrics(),
    connect: missing,
    fetch: missing,
    storage: shelf(),
    keys: { seal: missing, open: missing, signToken: missing, publicJwk: missing },
    dataDir: "/nonexistent",
    configDir: "/nonexistent",
    ...given,
  };
}
