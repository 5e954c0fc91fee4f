/** The operational events of the relay, as webhooks of the OpenAPI document. */
import type { EventTypes } from "../../model/event-type.ts";
import type { NoticeType } from "../../model/notice.ts";

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

const described = (description: string, schema: Schema): EventTypes[string] => ({
  description,
  schema,
  validate: "off",
});

/** By name; at most one of each within an hour about one subscription, but for `relay:delivery.failed`. */
export const OPERATIONAL_EVENTS: Readonly<Record<NoticeType | "relay:delivery.failed", EventTypes[string]>> = {
  "relay:breaker.opened": described(
    "The circuit breaker pauses a subscription.",
    about({ failures: count, failingSince: time, pausedUntil: time }),
  ),
  "relay:breaker.closed": described(
    "A subscription that was paused has taken an attempt again.",
    about({ failingSince: time }),
  ),
  "relay:subscription.failing": described(
    "A delivery has failed for good. Others within an hour are only counted.",
    about(FAILURE),
  ),
  "relay:subscription.disabled": described(
    "A subscription is disabled.",
    about({ reason: { enum: ["endpoint_gone", "endpoint_failing", "by_hand"] } }),
  ),
  "relay:secret.expiring": described(
    "A quarter of the overlap of a rotation is left: use the new secret from now on.",
    about({ previousSecretExpiresAt: time }),
  ),
  "relay:pending.high": described(
    "More deliveries are pending than `notify.pendingPerKey`, or than `notify.pending` in all.",
    data({ ...COMMON, pending: count, bound: count }, ["keyId", "heldBack"]),
  ),
  "relay:delivery.failed": described(
    "A delivery has failed for good: one event for each.",
    data({ keyId: COMMON.keyId, ...FAILURE }, ["keyId"]),
  ),
};
