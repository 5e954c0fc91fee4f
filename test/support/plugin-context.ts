/** Hands a plug-in a clock and a folder; whatever else it asks for is refused. */
import type { Clock } from "../../core/ports/clock.ts";
import type { PluginContext } from "../../core/ports/plugin.ts";

const silent = (): void => {};

export function pluginContext(clock: Clock, dataDir: string, more: Partial<PluginContext> = {}): PluginContext {
  const refuse = (what: string) => () => {
    throw new Error(`this test hands no ${what} to the plug-in`);
  };
  return {
    clock,
    log: { debug: silent, info: silent, warn: silent, error: silent },
    metrics: { count: silent, gauge: silent, observe: silent },
    connect: refuse("connect"),
    fetch: refuse("fetch"),
    get storage(): never {
      throw new Error("the storage is being set up");
    },
    refused: () => Promise.resolve(),
    secret: refuse("secret"),
    guess: (_place, _who, attempt) => attempt(),
    keys: { seal: refuse("key"), open: refuse("key"), signToken: refuse("key"), publicJwk: refuse("key") },
    dataDir,
    configDir: dataDir,
    ...more,
  };
}
