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

interface Noted {
  readonly call: string;
  readonly text: string;
  /** Monotonic. */
  at: number;
  loggedAt: number;
  count: number;
}

export function createIncidents(deps: {
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Pick<Log, "error">;
  readonly metrics: Pick<Metrics, "count">;
}): Incidents {
  const { clock, log, metrics } = deps;
  // Plug-ins and their calls are few, so that this does not grow.
  const noted = new Map<string, Map<string, Noted>>();

  return {
    note({ kind, name }, call, error) {
      metrics.count("plugin_faults", { plugin: name, call });
      const plugin = `${kind}:${name}`;
      const calls = noted.get(plugin) ?? new Map<string, Noted>();
      noted.set(plugin, calls);
      const text = thrownText(error);
      const now = clock.monotonic();
      const before = calls.get(call);
      const isNew = before === undefined || now - before.loggedAt >= SHOWN_MS;
      const count = (before?.count ?? 0) + 1;
      calls.set(call, { call, text, at: now, loggedAt: isNew ? now : before.loggedAt, count: isNew ? 0 : count });
      // A line for each would bury the others: one a minute says how many came since.
      if (isNew) log.error("a plug-in failed", { kind, plugin: name, action: call, error: text, count });
    },
    recent() {
      const lines = new Map<string, string>();
      const since = clock.monotonic() - SHOWN_MS;
      for (const [plugin, calls] of noted) {
        const latest = [...calls.values()].reduce((a, b) => (b.at >= a.at ? b : a));
        if (latest.at > since) lines.set(plugin, `failed within the last minute: ${latest.call}: ${latest.text}`);
      }
      return lines;
    },
  };
}
