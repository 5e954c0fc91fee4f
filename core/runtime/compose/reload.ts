/** Reloads what may change at run time: limits, the catalogue of events, transforms, the log level. */
import type { Limiter } from "../../limits/limiter.ts";
import type { RelayLog } from "../observability/index.ts";
import type { Transforms } from "../transforms/transforms.ts";
import type { EventTypes } from "../../model/event-type.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Log } from "../../ports/plugin.ts";
import type { EventCheck } from "../../publish/parse-events.ts";

/** The parts of a plan that a reload takes over. */
export type Reloadable = Pick<Plan, "limits" | "abuse" | "events" | "eventTypes" | "log"> & {
  /** Names of the transforms. */
  readonly transforms: readonly string[];
};

/** Returns the parts of a plan that may change; no function among it, so that it can cross to a process. */
export const reloadable = ({ limits, abuse, events, eventTypes, transforms, log }: Plan): Reloadable => ({
  ...{ limits, abuse, events, eventTypes, log },
  transforms: Object.keys(transforms),
});

/** The event names that may be published now, all of them fields: each event reads them. */
interface Catalogue {
  /** `undefined`: every well-formed name. The same list until it is replaced. */
  readonly events: readonly string[] | undefined;
  readonly names: ReadonlySet<string> | undefined;
  /** Descriptions of the types, by name. The same object until it is replaced. */
  readonly types: EventTypes | undefined;
  /** Judges data by the schemas of the types; `undefined`: no type is checked. */
  readonly checks: EventCheck | undefined;
  /** Names and types count at once. Their schemas follow when they are compiled; until then the old ones judge. */
  replace(next: Pick<Plan, "events" | "eventTypes">): void;
}

/**
 * @param checks those of `first`
 * @param compile makes the checks of the types that come later
 */
export function createCatalogue(
  first: Pick<Plan, "events" | "eventTypes">,
  checks: EventCheck | undefined,
  compile: (types: EventTypes | undefined) => Promise<EventCheck | undefined>,
  log: Log,
): Catalogue {
  const read = ({ events, eventTypes: types }: typeof first) => ({ events, types, names: events && new Set(events) });
  let current = first;
  const catalogue = {
    ...read(first),
    checks,
    replace(next: typeof first) {
      current = next;
      Object.assign(catalogue, read(next));
      void compile(next.eventTypes).then(
        (made) => {
          // A later config is compiled on its own.
          if (current === next) catalogue.checks = made;
        },
        (error: unknown) =>
          log.error("the schemas of event types are refused, the old ones hold", { error: String(error) }),
      );
    },
  };
  return catalogue;
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
    const changed = (["limits", "abuse", "events", "eventTypes", "transforms", "log"] as const).filter(
      (name) => JSON.stringify(current[name]) !== JSON.stringify(next[name]),
    );
    if (changed.includes("limits") || changed.includes("abuse")) parts.limiter().configure(next.limits, next.abuse);
    if (changed.includes("events") || changed.includes("eventTypes")) parts.catalogue().replace(next);
    // Always: a function may be another one under the same name.
    parts.transforms()?.reload(next.transforms);
    if (changed.includes("log")) parts.log.setLevel(next.log.level);
    current = next;
    return changed;
  };
}
