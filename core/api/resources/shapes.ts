/** The shapes of answers, for the documentation and the tests that hold answers against it. */
import { z } from "zod";
import { shownFilter } from "./filter-schema.ts";
import { attemptErrors, deliveryStatuses, eventStatuses } from "./statuses.ts";
import { subscriptionName } from "./subscription-names.ts";

export const time = z.iso.datetime().meta({ description: "ISO 8601, UTC, milliseconds." });

const named = { id: z.string(), url: z.string(), events: z.array(z.string()) };
const status = z.enum(["active", "disabled"]);
const subscription = { ...named, status };
const options = {
  description: z.string().optional(),
  rateLimit: z.strictObject({ perSecond: z.number() }).optional(),
  timeoutMs: z.int().optional(),
  retry: z
    .union([
      z.strictObject({ attempts: z.int(), firstDelayMs: z.int(), factor: z.number(), maxDelayMs: z.int() }),
      z.strictObject({ attempts: z.int(), delaysMs: z.array(z.int()) }),
    ])
    .optional(),
  headers: z.record(z.string(), z.null()).optional(),
  clientCertificate: z
    .strictObject({
      subject: z.string(),
      fingerprint: z.string().meta({ description: "SHA-256, in hex with colons." }),
      notAfter: time,
    })
    .optional(),
  oauth2: z
    .strictObject({
      tokenUrl: z.string(),
      clientId: z.string(),
      clientSecret: z.null(),
      scope: z.string().optional(),
      audience: z.string().optional(),
    })
    .optional(),
  filter: shownFilter.optional(),
  transform: z.string().optional(),
  ordered: z.literal(true).optional(),
  orderBy: z.union([z.string(), z.array(z.string())]).optional(),
  onFailed: z.enum(["skip", "hold"]).optional(),
  disabledReason: z.enum(["endpoint_gone", "endpoint_failing", "record_damaged"]).optional().meta({
    description: "`record_damaged`: its stored record is damaged; of what is shown, only its id is certain.",
  }),
};
const secret = z.string().meta({ description: "The signing secret. Shown once, here." });

/** What the request gave is not answered. */
const madeSecret = z.string().optional().meta({
  description: "The signing secret that the relay made, shown once, here. Left out where the request gave one.",
});

export const createdSubscription = z
  .strictObject({ ...named, secret: madeSecret, status, createdAt: time, ...options })
  .meta({ id: "CreatedSubscription" });
export const listedSubscription = z
  .strictObject({ ...subscription, createdAt: time, ...options })
  .meta({ id: "Subscription" });
export const shownSubscription = z
  .strictObject({ ...subscription, createdAt: time, updatedAt: time, ...options })
  .meta({ id: "SubscriptionDetail" });
export const updatedSubscription = z
  .strictObject({ ...subscription, updatedAt: time, ...options })
  .meta({ id: "UpdatedSubscription" });
export const rotatedSubscription = z
  .strictObject({ ...subscription, secret, updatedAt: time, previousSecretExpiresAt: time.nullable() })
  .meta({ id: "RotatedSubscription" });

export const attempt = z
  .strictObject({
    id: z.string(),
    cycle: z.int(),
    number: z.int(),
    startedAt: time,
    durationMs: z.number(),
    statusCode: z.int().optional(),
    error: attemptErrors.optional(),
    detail: z.string().optional().meta({
      description:
        "Which rule of the guard refused, what the OAuth 2 server answered, or why the transform made no body, where `error` is `guard`, `token` or `transform`. Of a test event, that the connection of its URL is away.",
    }),
    responseExcerpt: z.string().optional(),
    responseTruncated: z.boolean().optional(),
    transform: z.string().optional().meta({ description: "The transform that made the body." }),
  })
  .meta({ id: "Attempt" });

const reason = z.enum([
  "exhausted",
  "endpoint_gone",
  "subscription_disabled",
  "subscription_deleted",
  "cancel_requested",
  "record_damaged",
]);
export const delivery = {
  id: z.string(),
  subscriptionId: z.string(),
  subscriptionName,
  status: deliveryStatuses,
  reason: reason.optional(),
  cycle: z.int(),
  attempts: z.array(attempt),
  inOrder: z
    .literal(true)
    .optional()
    .meta({ description: "It goes in order. Before its first attempt it may wait for its turn." }),
  nextAttemptAt: time.optional(),
  updatedAt: time,
};
export const orderShown = z
  .strictObject({
    ordered: z.boolean(),
    waiting: z.int().meta({ description: "Deliveries that wait for their turn." }),
    held: z
      .array(z.strictObject({ eventId: z.string(), deliveryId: z.string(), since: time }).partial())
      .meta({ description: "Failed deliveries that hold up those behind them. One whose record is damaged is empty." }),
  })
  .meta({ id: "Order" });
export const skipped = z.strictObject({ skipped: z.int() }).meta({ id: "Skipped" });
export const eventDelivery = z.strictObject(delivery).meta({ id: "EventDelivery" });

export const eventHead = {
  id: z.string(),
  type: z.string(),
  keyId: z.string(),
  createdAt: time,
  acceptedAt: time,
  status: eventStatuses,
  damaged: z.literal(true).optional().describe("Its stored record is damaged: what is shown of it may be wrong"),
};
export const shownEvent = z
  .strictObject({ ...eventHead, data: z.unknown(), deliveries: z.array(eventDelivery) })
  .meta({ id: "EventDetail" });

export const replayed = z.strictObject({ deliveries: z.int() });
export const bulkReplayed = z
  .strictObject({ matched: z.int(), replayed: z.int(), more: z.boolean() })
  .meta({ id: "BulkReplayed" });
export const transformName = z.strictObject({ name: z.string() }).meta({ id: "Transform" });
const validate = z.enum(["off", "warn", "refuse"]).optional().meta({
  description: "What is done with an event whose data does not match the schema. Left out where there is no schema.",
});
const eventTypeHead = {
  name: z.string(),
  description: z.string().optional(),
  deprecated: z.literal(true).optional().meta({ description: "Do not begin to use it." }),
  validate,
};
export const eventType = z
  .strictObject({
    ...eventTypeHead,
    hasExample: z.literal(true).optional().meta({ description: "A test event may be its example." }),
  })
  .meta({ id: "EventType" });
export const eventTypeDetail = z
  .strictObject({
    ...eventTypeHead,
    schema: z.unknown().optional().meta({ description: "What `data` must be: JSON Schema 2020-12." }),
    example: z.unknown().optional().meta({ description: "A `data` that matches the schema." }),
  })
  .meta({ id: "EventTypeDetail" });
export const auditLine = z
  .strictObject({
    at: time,
    by: z.string(),
    address: z.string().optional(),
    requestId: z.string().optional(),
    action: z.string(),
    target: z.string(),
    result: z.enum(["done", "refused"]),
    detail: z.string().optional(),
  })
  .meta({ id: "AuditLine" });
const column = z.array(z.number().nullable());
const number = z.number().nullable();
const sums = { accepted: z.int(), filtered: z.int(), delivered: z.int(), failed: z.int(), attempts: z.int() };
const MORE = "How many more there are, with fewer events and attempts.";
export const apiKey = z
  .strictObject({ id: z.string(), figures: z.strictObject({ ...sums, p50Ms: number, p99Ms: number }).optional() })
  .meta({ id: "ApiKey" });
const latency = { p50Ms: number, p99Ms: number };
const refusals = <T extends z.ZodType>(of: T) =>
  z.strictObject({ RATE_LIMIT_EXCEEDED: of, BURST_EXCEEDED: of, PROVIDER_BACKPRESSURE: of, ABUSE_SUSPEND: of });
const columns = {
  accepted: column,
  filtered: column,
  delivered: column,
  failed: column,
  attempts: column,
  p50Ms: column,
  p99Ms: column,
  backlog: column,
  refused: refusals(column),
};
const glance = z
  .strictObject({
    ...subscription,
    createdAt: time,
    ...options,
    figures: z.strictObject({
      ...sums,
      ...latency,
      backlog: z.int().meta({ description: "Deliveries pending now; 1,000 stands for that or more." }),
    }),
    failuresInARow: z.int(),
    failingSince: time.optional(),
    restsUntil: time.optional().meta({ description: "The breaker rests it until then." }),
    lastDelivery: z
      .strictObject({
        eventId: z.string(),
        status: deliveryStatuses,
        at: time,
        statusCode: z.int().optional(),
        error: z.string().optional(),
      })
      .optional()
      .meta({ description: "Of the newest event that it was tried with." }),
  })
  .meta({ id: "SubscriptionAtAGlance" });
export const keyStats = z
  .strictObject({
    range: z.enum(["1h", "24h", "7d"]),
    stepMs: z.int(),
    from: time,
    series: z.strictObject(columns).meta({ description: "One number a bucket, oldest first; null: nothing measured." }),
    totals: z.strictObject({ ...sums, ...latency, refused: refusals(z.int()) }),
    subscriptions: z.array(glance).max(1_000),
    subscriptionsLeft: z.int().optional().meta({ description: MORE }),
  })
  .meta({ id: "KeyStats" });
/** Figures whose names grow with the relay. */
export const figures = z.record(z.string(), z.unknown());

export const problem = z
  .strictObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string(),
    code: z.string(),
    errors: z
      .array(z.strictObject({ path: z.string(), message: z.string(), reason: z.string().optional() }))
      .optional(),
    retryAfter: z.int().min(1).optional(),
  })
  .meta({ id: "Problem" });
