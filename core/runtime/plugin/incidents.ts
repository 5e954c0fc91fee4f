/** Notes what plug-ins do that no plug-in may: for the log, the metrics and `/readyz`, always with the plug-in's name. */
import type { Clock } from "../../ports/clock.ts";
import type { Log, Metrics } from "../../ports/plugin.ts";
import { thrownText } from "./thrown.ts";

/** The plug-in that a call goes into. */
export interface PluginName {
  readonly kind: string;
  readonly name: string;
}

/** An incident is shown in `/readyz` for this long, and logged again after it, ms. */
const SHOWN_MS = 60_000;

interface IncidentDeps {
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Pick<Log, "error">;
  readonly metrics: Pick<Metrics, "count">;
}

export class Incidents {
  readonly #deps: IncidentDeps;
  /** By plug-in and call, the latest at the end. They are few, so that this does not grow. */
  readonly #noted = new Map<string, { plugin: string; line: string; at: number; loggedAt: number; count: number }>();

  constructor(deps: IncidentDeps) {
    this.#deps = deps;
  }

  /** @param call what was called: `send`, `accepted`, `background` for what no call was waiting for */
  note({ kind, name }: PluginName, call: string, error: unknown): void {
    const { clock, log, metrics } = this.#deps;
    metrics.count("plugin_faults", { plugin: name, call });
    const plugin = `${kind}:${name}`;
    const text = thrownText(error);
    const at = clock.monotonic();
    const { loggedAt, count } = this.#noted.get(`${plugin} ${call}`) ?? { loggedAt: -Infinity, count: 0 };
    const isNew = at - loggedAt >= SHOWN_MS;
    const line = `failed within the last minute: ${call}: ${text}`;
    this.#noted.delete(`${plugin} ${call}`);
    const shown = isNew ? { loggedAt: at, count: 0 } : { loggedAt, count: count + 1 };
    this.#noted.set(`${plugin} ${call}`, { plugin, line, at, ...shown });
    // A line for each would bury the others: one a minute says how many came since.
    if (isNew) log.error("a plug-in failed", { kind, plugin: name, action: call, error: text, count: count + 1 });
  }

  /** Returns one line for each plug-in that has failed within the last minute, by `kind:name`. */
  recent(): ReadonlyMap<string, string> {
    const since = this.#deps.clock.monotonic() - SHOWN_MS;
    return new Map([...this.#noted.values()].filter(({ at }) => at > since).map(({ plugin, line }) => [plugin, line]));
  }
}
