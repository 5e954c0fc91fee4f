/** Notes what plug-ins do that no plug-in may: for the log, the metrics and `/readyz`, always with the plug-in's name. */
import type { Clock } from "../../ports/clock.ts";
import type { Log, Metrics } from "../../ports/plugin.ts";
import { thrownText } from "./thrown.ts";

/** The plug-in that a call goes into. */
export interface PluginName {
  readonly kind: string;
  readonly name: string;
}

export interface Incidents {
  /** @param call what was called: `send`, `accepted`, `background` for what no call was waiting for */
  note(plugin: PluginName, call: string, error: unknown): void;
  /** One line for each plug-in that has failed within the last minute, by `kind:name`. */
  recent(): ReadonlyMap<string, string>;
}

/** An incident is shown in `/readyz` for this long, and logged again after it, ms. */
const SHOWN_MS = 60_000;

export function createIncidents(deps: {
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Pick<Log, "error">;
  readonly metrics: Pick<Metrics, "count">;
}): Incidents {
  const { clock, log, metrics } = deps;
  // By plug-in and call, the latest at the end. They are few, so that this does not grow.
  const noted = new Map<string, { plugin: string; line: string; at: number; loggedAt: number; count: number }>();

  return {
    note({ kind, name }, call, error) {
      metrics.count("plugin_faults", { plugin: name, call });
      const plugin = `${kind}:${name}`;
      const text = thrownText(error);
      const at = clock.monotonic();
      const { loggedAt, count: before } = noted.get(`${plugin} ${call}`) ?? { loggedAt: -Infinity, count: 0 };
      const isNew = at - loggedAt >= SHOWN_MS;
      const line = `failed within the last minute: ${call}: ${text}`;
      noted.delete(`${plugin} ${call}`);
      const shown = isNew ? { loggedAt: at, count: 0 } : { loggedAt, count: before + 1 };
      noted.set(`${plugin} ${call}`, { plugin, line, at, ...shown });
      // A line for each would bury the others: one a minute says how many came since.
      if (isNew) log.error("a plug-in failed", { kind, plugin: name, action: call, error: text, count: before + 1 });
    },
    recent() {
      const since = clock.monotonic() - SHOWN_MS;
      return new Map([...noted.values()].filter(({ at }) => at > since).map(({ plugin, line }) => [plugin, line]));
    },
  };
}
