/**
 * Reloads what may change while the relay runs: limits, the catalogue of events, transforms, the log level. The rest needs
 * a restart.
 */
import type { Limiter } from "../../limits/limiter.ts";
import type { RelayLog } from "../observability/index.ts";
import type { Transforms } from "../transforms/transforms.ts";
import type { Plan } from "../../ports/plan.ts";

/** The parts of a plan that a reload takes over. */
export type Reloadable = Pick<Plan, "limits" | "abuse" | "events" | "log"> & {
  /** Names of the transforms. */
  readonly transforms: readonly string[];
};

/** What of a plan may change; no function among it, so that it can cross to a thread or a process. */
export const reloadable = ({ limits, abuse, events, transforms, log }: Plan): Reloadable => ({
  ...{ limits, abuse, events, log },
  transforms: Object.keys(transforms),
});

/** The event names that may be published now. */
export interface Catalogue {
  /** `undefined`: every well-formed name. The same list until it is replaced. */
  readonly now: () => readonly string[] | undefined;
  replace(names: readonly string[] | undefined): void;
}

export function createCatalogue(names: readonly string[] | undefined): Catalogue {
  let current = names;
  return { now: () => current, replace: (next) => void (current = next) };
}

/**
 * Takes over those parts of a checked plan, each as a whole. Limit windows and suspensions stay, and events that were
 * accepted under the old catalogue are delivered. @returns the names of what changed
 */
export type Reload = (next: Reloadable) => readonly string[];

export function createReload(
  first: Reloadable,
  parts: {
    readonly limiter: () => Pick<Limiter, "configure">;
    readonly catalogue: () => Pick<Catalogue, "replace">;
    readonly transforms: () => Pick<Transforms, "reload"> | undefined;
    readonly log: Pick<RelayLog, "setLevel">;
  },
): Reload {
  let current = first;
  return (next) => {
    const changed = (["limits", "abuse", "events", "transforms", "log"] as const).filter(
      (name) => JSON.stringify(current[name]) !== JSON.stringify(next[name]),
    );
    if (changed.includes("limits") || changed.includes("abuse")) parts.limiter().configure(next.limits, next.abuse);
    if (changed.includes("events")) parts.catalogue().replace(next.events);
    // Always: a function may be another one under the same name.
    parts.transforms()?.reload(next.transforms);
    if (changed.includes("log")) parts.log.setLevel(next.log.level);
    current = next;
    return changed;
  };
}
