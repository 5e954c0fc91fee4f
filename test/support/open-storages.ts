/** Opens storages that are closed after each test, also where it fails. */
import { afterEach } from "vitest";
import type { Clock } from "../../core/ports/clock.ts";
import type { Plugin, PluginContext } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { testClock } from "./clock.ts";
import { pluginContext } from "./plugin-context.ts";

export function openStorages() {
  const opened: Storage[] = [];
  afterEach(async () => {
    for (const storage of opened.splice(0)) await storage.dispose();
  });
  return async (
    plugin: Plugin<"storage", Storage>,
    dir: string,
    { clock = testClock(), ...more }: Partial<PluginContext> & { readonly clock?: Clock } = {},
  ): Promise<Storage> => {
    const storage = await plugin.setup(pluginContext(clock, dir, more));
    opened.push(storage);
    return storage;
  };
}

/** Resolves to what the work fails with; undefined when it does not. */
export const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );
