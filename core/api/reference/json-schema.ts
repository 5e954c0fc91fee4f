/** JSON Schema out of the schemas that validate. */
import { z } from "zod";

type Json = Readonly<Record<string, unknown>>;

/** Schemas with an id go to the components, once; what is not of JSON Schema or mere noise is left out. */
export function jsonSchema(schema: z.ZodType, io: "input" | "output", components: Record<string, unknown>): Json {
  const made = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    override: ({ jsonSchema: one }) => {
      if (one.format === "date-time") delete one.pattern;
      if (one.minimum === Number.MIN_SAFE_INTEGER) delete one.minimum;
      if (one.maximum === Number.MAX_SAFE_INTEGER) delete one.maximum;
    },
  });
  const { $schema: _schema, $defs = {}, ...rest } = relinked(made) as Record<string, unknown>;
  for (const [name, definition] of Object.entries($defs as Json)) components[name] ??= definition;
  return rest;
}

function relinked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(relinked);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [
      name,
      name === "$ref" && typeof one === "string" ? one.replace("#/$defs/", "#/components/schemas/") : relinked(one),
    ]),
  );
}
