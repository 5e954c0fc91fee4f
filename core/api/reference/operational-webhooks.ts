/** The operational events of the relay, as webhooks of the OpenAPI document. */
import type { EventTypes } from "../../model/event-type.ts";
import { NOTICE_MEANINGS } from "../../model/notice.ts";

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
  reason: { ...text, description: "Why the delivery has failed: `exhausted` or `endpoint_gone`." },
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

const SCHEMAS: Readonly<Record<keyof typeof NOTICE_MEANINGS, Schema>> = {
  "relay:breaker.opened": about({ failures: count, failingSince: time, pausedUntil: time }),
  "relay:breaker.closed": about({ failingSince: time }),
  "relay:subscription.failing": about(FAILURE),
  "relay:subscription.disabled": about({ reason: { enum: ["endpoint_gone", "endpoint_failing", "by_hand"] } }),
  "relay:secret.expiring": about({ previousSecretExpiresAt: time }),
  "relay:pending.high": data({ ...COMMON, pending: count, bound: count }, ["keyId", "heldBack"]),
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
