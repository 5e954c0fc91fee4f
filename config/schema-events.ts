/** The part of the config's schema that describes event types: a list of names, or what each name stands for. */
import { z } from "zod";
import { MAX_TYPE_BYTES, MAX_TYPES_BYTES, type EventTypeOptions } from "../core/model/event-type.ts";
import { isEventName, OPERATIONAL } from "../core/model/names.ts";
import { choiceValue, flag, isKeyed, list, pass, section, textValue } from "./check-plan.ts";

const isOwnName = (value: unknown): boolean =>
  typeof value === "string" && isEventName(value) && !value.startsWith(OPERATIONAL);
const NAME_RULE = `must be an event name: letters, digits, _ and - in parts separated by : or ., at most 128, not starting with ${OPERATIONAL}`;

/** What JSON can say, and as JSON would say it: dates as text, without what is `undefined`. */
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

const eventType = section({
  schema: jsonValue
    .refine(
      (value) => typeof value === "boolean" || (typeof value === "object" && value !== null && !Array.isArray(value)),
      "must be a JSON Schema: an object, true or false",
    )
    .optional(),
  example: jsonValue.optional(),
  description: textValue.refine((value) => value.length <= 1_000, "must have at most 1000 characters").optional(),
  deprecated: flag.optional(),
  validate: choiceValue("off", "warn", "refuse").optional(),
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
      if (!isOwnName(name)) ctx.addIssue({ code: "custom", path: [name], message: NAME_RULE });
      const checked = eventType.safeParse(given);
      if (checked.success) types[name] = checked.data as EventTypeOptions;
      else pass(checked.error, ctx, [name]);
    }
    if (JSON.stringify(types).length > MAX_TYPES_BYTES)
      ctx.addIssue(`must be at most ${MAX_TYPES_BYTES} bytes of JSON in all`);
    return types;
  });
