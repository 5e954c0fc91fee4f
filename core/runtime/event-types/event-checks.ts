/** Judges the data of published events by the schemas of the config, and logs and counts those that differ. */
import type { EventTypes } from "../../model/event-type.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log, Metrics } from "../../ports/plugin.ts";
import type { EventCheck } from "../../publish/parse-events.ts";
import { compileEventTypes } from "./compile.ts";

/** A type whose events differ is logged once in this time, ms. */
const QUIET_MS = 60_000;

interface Around {
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Log;
  readonly metrics: Pick<Metrics, "count">;
}

/**
 * @returns `undefined` where no type is checked
 * @throws Error when a type cannot be used, which the check of the config finds before
 */
export async function createEventChecks(
  types: EventTypes | undefined,
  around: Around,
): Promise<EventCheck | undefined> {
  const checked = Object.entries(types ?? {}).filter(([, one]) => one.schema !== undefined && one.validate !== "off");
  if (checked.length === 0) return undefined;
  const compiled = await compileEventTypes(Object.fromEntries(checked));
  const [problem] = compiled.problems;
  if (problem !== undefined) throw new Error(`events["${problem.type}"]: ${problem.message}`);
  const { clock, log, metrics } = around;
  const warns = new Set(checked.filter(([, one]) => one.validate === "warn").map(([type]) => type));
  const logged = new Map<string, number>();

  /** Logs that an event differs; nothing of its data, which may be private. */
  function tell(type: string, path: string): void {
    const now = clock.monotonic();
    if (now < (logged.get(type) ?? Number.NEGATIVE_INFINITY) + QUIET_MS) return;
    logged.set(type, now);
    log.warn("an event does not match the schema of its type, and passes", { type, path });
  }

  return (type, data) => {
    const found = compiled.problem(type, data);
    if (found === undefined) return undefined;
    const passes = warns.has(type);
    metrics.count("schema_mismatches", { result: passes ? "warned" : "refused" });
    if (!passes) return found;
    tell(type, found.path);
    return undefined;
  };
}
