/** The event types that have a schema or an example, as webhooks of the OpenAPI document. */
import type { EventType, EventTypes } from "../../model/event-type.ts";
import type { Json } from "./json-schema.ts";

/** A webhook by the name of each type. One that collides with ours, `event`, is left out. */
export function typedWebhooks(types: EventTypes, tag = "Event types"): Json {
  const described = Object.entries(types).filter(
    ([name, { schema, example }]) => name !== "event" && (schema !== undefined || example !== undefined),
  );
  return Object.fromEntries(described.map(([name, type]) => [name, { post: webhook(name, type, tag) }]));
}

const webhook = (name: string, { schema = true, example, description, deprecated }: EventType, tag: string): Json => ({
  operationId: `receive ${name}`,
  summary: name,
  ...(description !== undefined && { description }),
  ...(deprecated === true && { deprecated }),
  tags: [tag],
  security: [],
  requestBody: {
    required: true,
    content: {
      "application/json": {
        schema: {
          type: "object",
          required: ["id", "type", "keyId", "createdAt", "data"],
          properties: {
            id: { type: "string" },
            type: { const: name },
            keyId: { type: "string" },
            createdAt: { type: "string", format: "date-time" },
            data: moved(schema, `#/webhooks/${name}/post/requestBody/content/application~1json/schema/properties/data`),
          },
        },
        ...(example !== undefined && {
          example: {
            id: "evt_01J9ZK3V7Q8R5T2W4X6Y0A1B2C",
            type: name,
            keyId: "key_1",
            createdAt: "2026-01-01T00:00:00.000Z",
            data: example,
          },
        }),
      },
    },
  },
  responses: { "2XX": { description: "Delivered, whatever the body says." }, default: { description: "Tried again." } },
});

/** Keywords whose value is data and no schema. */
const DATA = new Set(["const", "enum", "default", "example", "examples"]);
/** Keywords that hold schemas by names, which may be spelled like keywords. */
const BY_NAME = new Set(["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"]);

/** A schema with its references led to the place where it now stands. Its own name would hide that place. */
function moved(schema: unknown, place: string): unknown {
  if (Array.isArray(schema)) return schema.map((one) => moved(one, place));
  if (typeof schema !== "object" || schema === null) return schema;
  const words = Object.entries(schema).filter(([word]) => word !== "$id" && word !== "$schema");
  return Object.fromEntries(
    words.map(([word, value]) => {
      if (word === "$ref" && typeof value === "string") return [word, `${place}${value.slice(1)}`];
      if (DATA.has(word) || word.startsWith("x-")) return [word, value];
      if (!BY_NAME.has(word) || typeof value !== "object" || value === null) return [word, moved(value, place)];
      return [word, Object.fromEntries(Object.entries(value).map(([name, one]) => [name, moved(one, place)]))];
    }),
  );
}
