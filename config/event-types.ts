/** Event types of a checked config: their defaults, and what only the validator of their schemas can find. */
import type { EventTypeOptions, EventTypes } from "../core/model/event-type.ts";
import type { Plan } from "../core/ports/plan.ts";
import * as defaults from "./defaults.ts";
import { ConfigError, pathText } from "./problems.ts";
import type { CheckedConfig } from "./schema.ts";

/** The names, and what is known of each where the config says more than names. */
export function eventNames({
  events,
  validate = defaults.VALIDATE,
}: CheckedConfig): Pick<Plan, "events" | "eventTypes"> {
  if (events === undefined) return {};
  if (Array.isArray(events)) return { events };
  const types = Object.entries(events as Readonly<Record<string, EventTypeOptions>>);
  return {
    events: types.map(([name]) => name),
    eventTypes: Object.fromEntries(
      types.map(([name, given]) => [name, { ...given, validate: given.validate ?? validate }]),
    ),
  };
}

/** Compiles the schemas of event types, for their problems. @throws ConfigError */
export async function checkEventTypes(types: EventTypes | undefined, file: string | undefined): Promise<void> {
  if (types === undefined || Object.values(types).every(({ schema }) => schema === undefined)) return;
  const { compileEventTypes } = await import("../core/runtime/event-types/compile.ts");
  const { problems } = await compileEventTypes(types);
  if (problems.length === 0) return;
  throw new ConfigError(
    problems.map(({ type, path, message }) => ({ path: pathText(["events", type, ...path]), message })),
    file,
  );
}
