/** A message source against its real broker, over an intake that remembers what was stored. */
import type { Plugin, PluginContext } from "../../core/ports/plugin.ts";
import type { Accept, Source } from "../../core/ports/source.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { context } from "./context.ts";
import { desk, type Desk } from "./intake.ts";
import { quietLog, quietMetrics } from "./quiet.ts";
import { shelf, type Shelf } from "./shelf.ts";
import { pacedClock } from "./paced-clock.ts";
import { until } from "./until.ts";

export interface Opened {
  readonly source: Source;
  readonly desk: Desk;
  readonly log: ReturnType<typeof quietLog>;
  readonly metrics: ReturnType<typeof quietMetrics>;
  /** The plug-in's own store. */
  readonly store: Shelf;
  /** Resolves once `holds` is true. */
  until(holds: () => boolean | Promise<boolean>): Promise<void>;
}

/** Returns the context of a source, with a clock that runs. */
export function sourceContext(plugin: Plugin<"source", Source>, given: Partial<PluginContext> = {}): PluginContext {
  return context({
    clock: systemClock(),
    secret: (path) => plugin.secrets?.[path] as string,
    ...given,
  });
}

/** Sets the plug-in up; `source.start(desk.intake.accept, …)` is the test's. */
export async function openSource(
  plugin: Plugin<"source", Source>,
  given: Partial<PluginContext> = {},
): Promise<Opened> {
  const [log, metrics, store] = [quietLog(), quietMetrics(), shelf()];
  const source = await plugin.setup(sourceContext(plugin, { log, metrics, storage: store, ...given }));
  return { source, desk: desk(), log, metrics, store, until };
}

/**
 * Stops a source whose upstream has fallen silent while it stored a message, and so is still to be told of it.
 * @param send publishes one message
 * @param silence from then on upstream answers nothing, and closes nothing
 * @returns how long the stop would take, ms: waits are passed over quickly, and count in full
 */
export async function stopWhileSilent(
  plugin: Plugin<"source", Source>,
  { send, silence }: { readonly send: () => Promise<unknown>; readonly silence: () => void },
): Promise<number> {
  let silent = false;
  const clock = pacedClock((ms) => (silent ? ms / 20 : ms));
  const { source, desk: own } = await openSource(plugin, { clock });
  const store: Accept = async (request) => {
    const accepted = await own.intake.accept(request);
    silence();
    silent = true;
    return accepted;
  };
  await source.start(store, { durability: "fsync" });
  await send();
  await until(() => silent);
  const [began, earlier] = [performance.now(), clock.waited.length];
  await source.stop();
  return clock.waited.slice(earlier).reduce((sum, ms) => sum + ms, performance.now() - began);
}

/** How often each number stands in the data of the events. */
export function ledger(events: readonly { readonly body: string }[]): Map<number, number> {
  const seen = new Map<number, number>();
  for (const { body } of events) {
    const { data } = JSON.parse(body) as { readonly data: number };
    seen.set(data, (seen.get(data) ?? 0) + 1);
  }
  return seen;
}
