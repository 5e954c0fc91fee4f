/** The `webhooks` of the document: the body and headers of a delivery, each event type that has a schema, and the operational events. */
import { z } from "zod";
import type { EventType, EventTypes } from "../../model/event-type.ts";
import type { RepeatedHeaders } from "../../model/header-names.ts";
import { NOTICE_MEANINGS } from "../../model/notice.ts";
import { note } from "../resources/fields.ts";
import { contentOf, joined, type Json, parameters, type SchemaCollection } from "./paths.ts";

const said = (description: string, example: string) => note(z.string(), description, example);
const hex = z.string().regex(/^[0-9a-f]{64}$/);
const counted = (description: string, example: string) => note(z.string().regex(/^[1-9]\d*$/), description, example);

/** The body of a delivery: these fields in this order, without any other white space. */
export const deliveredEvent = z
  .strictObject({
    id: note(
      z.string().max(128),
      "Unique per API key, and the same in every attempt and replay: skip an id that you have seen.",
      "evt_01J9ZK3V7Q8R5T2W4X6Y0A1B2C",
    ),
    type: note(
      z.string().max(128),
      "The name of the event. Names that start with `relay:` are the relay's own.",
      "deposit:paid",
    ),
    keyId: note(z.string().max(64), "The API key that the event is of.", "key_1"),
    createdAt: note(z.iso.datetime(), "When it happened: UTC, with milliseconds."),
    data: note(z.unknown(), "Byte for byte as it was published."),
  })
  .meta({ id: "DeliveredEvent" });

/** The headers that a delivery has of the relay's own. Static headers of the subscription come beside them. */
export const deliveredHeaders = z.object({
  "X-Relay-Webhook-Signature": hex.meta({
    description:
      "HMAC-SHA256 of the raw body in lower-case hex. The key is the whole secret as text, `whsec_` included.",
  }),
  "X-Relay-Webhook-Signature-Previous": hex.optional().meta({
    description: "The same by the previous secret, for as long as that overlaps after a rotation.",
  }),
  "webhook-id": said("The event's id.", "evt_01J9ZK3V7Q8R5T2W4X6Y0A1B2C"),
  "webhook-timestamp": counted("When this attempt was signed, in epoch seconds.", "1767225600"),
  "webhook-signature": said(
    "Standard Webhooks: `v1,` and the HMAC-SHA256 of `webhook-id.webhook-timestamp.body` in base64. The key is what stands behind `whsec_`, decoded. One for each secret that is live, with spaces between them. Where the relay signs with Ed25519 too, `v1a,` and that signature follow, for the keys of `/.well-known/relay-keys`.",
    "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
  ),
  "X-Relay-Event": said("The name of the event.", "deposit:paid"),
  "X-Relay-Attempt": counted("Counts the attempts, from 1 on; a replay begins again.", "1"),
  "X-Relay-Replay": counted("Counts the replays, from 1 on. A first delivery has no such header.", "1").optional(),
  "Content-Digest": said("SHA-256 of the body (RFC 9530).", "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"),
  traceparent: said(
    "W3C trace context, where it was published with one.",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  ).optional(),
});

const delivered = {
  id: "evt_01J9ZK3V7Q8R5T2W4X6Y0A1B2C",
  type: "deposit:paid",
  keyId: "key_1",
  createdAt: "2026-01-01T00:00:00.000Z",
  data: { amount: "12.50", currency: "EUR" },
};

/** @param repeated names of the config for headers that are sent twice */
function allHeaders(repeated: RepeatedHeaders): z.ZodObject {
  const own = deliveredHeaders.shape;
  const again = Object.entries(repeated).map(([name, of]) => {
    const one = own[of].meta({ ...own[of].meta(), description: `The same as \`${of}\`.` });
    return [name, one] as const;
  });
  return z.object({ ...own, ...Object.fromEntries(again) });
}

export const webhooks = (schemas: SchemaCollection, repeated: RepeatedHeaders): Json => ({
  event: {
    post: {
      operationId: "receiveEvent",
      summary: "An event, sent to the URL of each subscription that lists its name",
      description:
        "Check one of the two signatures over the raw body before you parse it, and compare in constant time. An answer that is no 2xx is tried again, up to 5 times in all; then the delivery is `failed` and can be replayed. A subscription with a transform gets the body that its transform makes instead.",
      tags: ["Webhooks"],
      security: [],
      parameters: parameters("header", allHeaders(repeated), schemas),
      requestBody: {
        required: true,
        content: contentOf([{ schema: deliveredEvent, examples: { event: delivered } }], "output", schemas),
      },
      responses: {
        "2XX": { description: "Delivered, whatever the body says." },
        410: { description: "The endpoint is gone: the subscription is disabled." },
        429: { description: "Tried again, not before the time that `Retry-After` names." },
        503: { description: "Tried again, not before the time that `Retry-After` names." },
        default: { description: "Tried again." },
      },
    },
  },
});

/**
 * The delivery where a subscription is made, without its headers. Generators of code leave out what no path leads to, and then
 * miss the schema that `webhooks` name.
 */
export const callback = (schemas: SchemaCollection): Json => ({
  event: {
    "{$request.body#/url}": {
      post: {
        operationId: "deliverEvent",
        summary: "A delivery: see the webhook `event`",
        tags: ["Webhooks"],
        security: [],
        requestBody: { required: true, content: contentOf([{ schema: deliveredEvent }], "output", schemas) },
        responses: {
          "2XX": { description: "Delivered, whatever the body says." },
          default: { description: "Tried again." },
        },
      },
    },
  },
});

/** Returns a function that makes the operation id of a type: `order.paid` → `receiveOrderPaid`. No two are the same. */
export function createWebhookIds(): (name: string) => string {
  const taken = new Set(["receiveEvent"]);
  return (name) => {
    const wanted = `receive${joined(`.${name}`)}`;
    let free = wanted;
    for (let i = 2; taken.has(free); i++) free = wanted + i;
    taken.add(free);
    return free;
  };
}

/** A webhook by the name of each type. One that collides with ours, `event`, is left out. */
export function typedWebhooks(types: EventTypes, idOf: (name: string) => string, tag = "Event types"): Json {
  const described = Object.entries(types).filter(
    ([name, { schema, example }]) => name !== "event" && (schema !== undefined || example !== undefined),
  );
  return Object.fromEntries(
    described.map(([name, type]) => [name, { post: { operationId: idOf(name), ...webhook(name, type, tag) } }]),
  );
}

const webhook = (name: string, { schema = true, example, description, deprecated }: EventType, tag: string): Json => ({
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
            type: { type: "string", const: name },
            keyId: { type: "string" },
            createdAt: { type: "string", format: "date-time" },
            data: moved(schema, `#/webhooks/${name}/post/requestBody/content/application~1json/schema/properties/data`),
          },
        },
        ...(example !== undefined && {
          example: { ...delivered, type: name, data: example },
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
/** Keywords that hold a schema, or a list of them, and no plain `true` or `false`. */
const HOLDING = new Set([
  ...["allOf", "anyOf", "oneOf", "prefixItems", "not", "if", "then", "else"],
  ...["items", "contains", "propertyNames", "data"],
]);

/**
 * Returns a schema with its references led to its new place. Its own name would hide that place. `true` and `false` are written
 * as the objects that mean the same: generators of code know no other schema.
 */
function moved(schema: unknown, place: string): unknown {
  if (typeof schema === "boolean") return schema ? {} : { not: {} };
  if (Array.isArray(schema)) return schema.map((one) => moved(one, place));
  if (typeof schema !== "object" || schema === null) return schema;
  const words = Object.entries(schema).filter(([word]) => word !== "$id" && word !== "$schema");
  return Object.fromEntries(
    words.map(([word, value]) => {
      if (word === "$ref" && typeof value === "string") return [word, `${place}${value.slice(1)}`];
      if (DATA.has(word) || word.startsWith("x-")) return [word, value];
      if (BY_NAME.has(word) && typeof value === "object" && value !== null)
        return [word, Object.fromEntries(Object.entries(value).map(([name, one]) => [name, moved(one, place)]))];
      return [word, typeof value === "boolean" && !HOLDING.has(word) ? value : moved(value, place)];
    }),
  );
}

type Schema = Readonly<Record<string, unknown>>;

const text = { type: "string" } as const;
const count = { type: "integer", minimum: 0 } as const;
const time = { type: "string", format: "date-time" } as const;

const COMMON = {
  keyId: { ...text, description: "The API key that it is about. Only in events of the key `relay:operator`." },
  heldBack: {
    ...count,
    description: "How many of the kind about the same were held back since the last one. Absent when there was none.",
  },
} as const;

const SUBSCRIPTION = {
  subscriptionId: { ...text, description: "The subscription that it is about." },
  host: { ...text, description: "The host of its URL." },
} as const;

const FAILURE = {
  subscriptionId: text,
  deliveryId: text,
  eventId: text,
  type: { ...text, description: "The type of the event that was not delivered." },
  reason: {
    ...text,
    description:
      "Why the delivery has failed: `exhausted`, `endpoint_gone`, `receiver_disabled` or `receiver_aborted`.",
  },
  cycle: { ...count, description: "0, or how often it was replayed." },
  attempts: { ...count, description: "Attempts of this cycle." },
} as const;

const data = (properties: Schema, optional: readonly string[]): Schema => ({
  type: "object",
  required: Object.keys(properties).filter((name) => !optional.includes(name)),
  properties,
});
/** A URL need not have a host. */
const about = (more: Schema): Schema => data({ ...COMMON, ...SUBSCRIPTION, ...more }, ["keyId", "heldBack", "host"]);

const ATTENTION = {
  part: { ...text, description: "The part of the relay that it is about, where it is about no subscription." },
  state: { ...text, description: "As `GET /relay/attention` names it." },
  since: time,
} as const;
const OPTIONAL = ["keyId", "heldBack", "subscriptionId", "host", "part", "since"];

const SCHEMAS: Readonly<Record<keyof typeof NOTICE_MEANINGS, Schema>> = {
  "relay:breaker.opened": about({ failures: count, failingSince: time, pausedUntil: time }),
  "relay:breaker.closed": about({ failingSince: time }),
  "relay:subscription.failing": about(FAILURE),
  "relay:subscription.disabled": about({
    reason: { enum: ["endpoint_gone", "receiver_disabled", "endpoint_failing", "by_hand"] },
  }),
  "relay:secret.expiring": about({ previousSecretExpiresAt: time }),
  "relay:pending.high": data({ ...COMMON, pending: count, bound: count }, ["keyId", "heldBack"]),
  "relay:attention.needed": data({ ...COMMON, ...SUBSCRIPTION, ...ATTENTION, reason: text, help: text }, OPTIONAL),
  "relay:attention.recovered": data({ ...COMMON, ...SUBSCRIPTION, ...ATTENTION }, OPTIONAL),
  "relay:delivery.failed": data({ keyId: COMMON.keyId, ...FAILURE }, ["keyId"]),
};

const described = (type: keyof typeof NOTICE_MEANINGS): EventTypes[string] => ({
  description: NOTICE_MEANINGS[type],
  schema: SCHEMAS[type],
  validate: "off",
});

/** By name; at most one of each within an hour about one subscription, but for `relay:delivery.failed`. */
export const OPERATIONAL_EVENTS = Object.fromEntries(
  (Object.keys(SCHEMAS) as (keyof typeof SCHEMAS)[]).map((type) => [type, described(type)]),
) as Readonly<Record<keyof typeof SCHEMAS, EventTypes[string]>>;
