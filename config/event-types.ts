/** Event types of the config: a list of names, or what each name stands for. */
import { z } from "zod";
import {
  MAX_TYPE_BYTES,
  MAX_TYPES_BYTES,
  type EventTypeOptions,
  type EventTypes,
  type Validation,
} from "../core/model/event-type.ts";
import { isEventName, OPERATIONAL } from "../core/model/names.ts";
import type { Plan } from "../core/ports/plan.ts";
import { choiceValue, flag, isKeyed, list, options, pass, refuse, textValue } from "./check-plan.ts";
import { VALIDATE } from "./defaults.ts";
import { ConfigError, pathText } from "./problems.ts";

const isOwnName = (value: unknown): boolean =>
  typeof value === "string" && isEventName(value) && !value.startsWith(OPERATIONAL);
const NAME_RULE = `must be an event name: letters, digits, _ and - in parts separated by : or ., at most 128, not starting with ${OPERATIONAL}`;

/** Takes what JSON can say, and returns it as JSON would say it: dates as text, without what is `undefined`. */
const jsonValue = z.unknown().transform((value, ctx): unknown => {
  try {
    const text = JSON.stringify(value);
    if (text !== undefined && Buffer.byteLength(text) <= MAX_TYPE_BYTES) return JSON.parse(text) as unknown;
    ctx.addIssue(text === undefined ? "must be JSON" : `must be at most ${MAX_TYPE_BYTES} bytes of JSON`);
  } catch {
    ctx.addIssue("must be JSON");
  }
  return z.NEVER;
});

const eventType = options({
  schema: jsonValue.refine(
    (value) => typeof value === "boolean" || (typeof value === "object" && value !== null && !Array.isArray(value)),
    "must be a JSON Schema: an object, true or false",
  ),
  example: jsonValue,
  description: textValue.refine((value) => value.length <= 1_000, "must have at most 1000 characters"),
  deprecated: flag,
  validate: choiceValue("off", "warn", "refuse"),
});

/** The names, or the types by name. */
export const events = z
  .unknown()
  .transform((value, ctx): readonly string[] | Readonly<Record<string, EventTypeOptions>> => {
    if (Array.isArray(value)) {
      const names = list(z.custom<string>(isOwnName, NAME_RULE)).safeParse(value);
      if (names.success) return names.data;
      pass(names.error, ctx, []);
      return z.NEVER;
    }
    if (!isKeyed(value)) {
      ctx.addIssue('must be a list of names, or types by name: { "deposit:paid": { schema } }');
      return z.NEVER;
    }
    const types: Record<string, EventTypeOptions> = {};
    for (const [name, given] of Object.entries(value)) {
      if (!isOwnName(name)) refuse(ctx, NAME_RULE, name);
      const checked = eventType.safeParse(given);
      if (checked.success) types[name] = checked.data as EventTypeOptions;
      else pass(checked.error, ctx, [name]);
    }
    if (JSON.stringify(types).length > MAX_TYPES_BYTES)
      ctx.addIssue(`must be at most ${MAX_TYPES_BYTES} bytes of JSON in all`);
    return types;
  });

/** Returns the names, and what is known of each where the config says more than names. */
export function eventNames(
  given: z.output<typeof events> | undefined,
  validate: Validation = VALIDATE,
): Pick<Plan, "events" | "eventTypes"> {
  if (given === undefined) return {};
  if (Array.isArray(given)) return { events: given };
  const types = Object.entries(given as Readonly<Record<string, EventTypeOptions>>);
  return {
    events: types.map(([name]) => name),
    eventTypes: Object.fromEntries(
      types.map(([name, type]) => [name, { ...type, validate: type.validate ?? validate }]),
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
