/** The figures of a key, for charts, with how each of its subscriptions is. */
import { z } from "zod";
import { isoTime } from "../../lib/time.ts";
import type { Chart, SubscriptionStats } from "../../stats/query.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import type { ResourceDeps } from "./deps.ts";
import { attemptErrors, deliveryStatuses, digits, note, time } from "./fields.ts";
import { listedFields } from "./subscription-schema.ts";
import { listedView, seenBy } from "./subscriptions.ts";

const operation = operationsOf("Figures");

export const range = z.enum(["1h", "24h", "7d"]);
const column = z.array(z.number().nullable());
export const sums = {
  accepted: z.int(),
  filtered: z.int(),
  delivered: z.int(),
  failed: z.int(),
  attempts: z.int(),
};
export const latency = { p50Ms: z.number().nullable(), p99Ms: z.number().nullable() };
const refusals = <T extends z.ZodType>(of: T) =>
  z.strictObject({ RATE_LIMIT_EXCEEDED: of, BURST_EXCEEDED: of, PROVIDER_BACKPRESSURE: of, ABUSE_SUSPEND: of });
const series = z
  .strictObject({
    accepted: column,
    filtered: column,
    delivered: column,
    failed: column,
    attempts: column,
    p50Ms: column,
    p99Ms: column,
    backlog: column,
    refused: refusals(column),
  })
  .meta({ id: "Series" });
const lastDelivery = z
  .strictObject({
    eventId: z.string(),
    status: deliveryStatuses,
    at: time,
    statusCode: z.int().optional(),
    error: attemptErrors.optional(),
  })
  .meta({ id: "LastDelivery" });
const glance = z
  .strictObject({
    ...listedFields,
    figures: z.strictObject({
      ...sums,
      ...latency,
      backlog: note(z.int(), "Deliveries pending now; 1,000 stands for that or more."),
    }),
    failuresInARow: z.int(),
    failingSince: time.optional(),
    restsUntil: note(time.optional(), "The breaker rests it until then."),
    recentAttempts: note(
      z.array(z.union([z.int(), attemptErrors])).optional(),
      "Where `recent` asks for it: what its newest attempts were answered, or where they failed; the newest last.",
    ),
    lastDelivery: note(lastDelivery.optional(), "Of the newest event that it was tried with."),
  })
  .meta({ id: "SubscriptionAtAGlance" });
export const keyStats = z
  .strictObject({
    range,
    stepMs: z.int(),
    from: time,
    series: note(series, "One number a bucket, oldest first; null: nothing measured."),
    totals: z.strictObject({ ...sums, ...latency, refused: refusals(z.int()) }),
    subscriptions: z.array(glance).max(1_000),
    subscriptionsLeft: note(z.int().optional(), "How many more there are, with fewer events and attempts."),
  })
  .meta({ id: "KeyStats" });

const recent = note(
  digits(1, 50).optional(),
  "Lists so many of the newest attempts of each subscription; fewer where there are more than 60 subscriptions.",
);

export const statsOperations = ({ figures, keys }: ResourceDeps): readonly AnyOperation[] => [
  operation("GET /api-keys/{keyId}/stats", {
    id: "getStats",
    summary: "Figures of a key for charts, and how its subscriptions are",
    portal: true,
    query: z.strictObject({ range: range.default("1h"), subscriptionId: z.string().max(64).optional(), recent }),
    reply: { status: 200, data: keyStats },
    async handle({ keyId, query, principal }) {
      const { subscriptions, left, ...rest } = await figures.stats(
        keyId,
        query.range,
        query.subscriptionId,
        query.recent,
      );
      const seen = (one: SubscriptionStats) => ({
        ...one,
        subscription: seenBy(principal, { keys }, one.subscription),
      });
      const glances = subscriptions.map((one) => glanceView(seen(one)));
      const subscriptionsLeft = left > 0 ? left : undefined;
      return { data: { ...chartView(rest), subscriptions: glances, subscriptionsLeft } };
    },
  }),
];

export const chartView = (chart: Chart): object => ({ ...chart, from: isoTime(chart.from) });
const timeOf = (ms: number | undefined): string | undefined => (ms === undefined ? undefined : isoTime(ms));

function glanceView({ subscription, health, last, recent: recentAttempts, ...figures }: SubscriptionStats): object {
  const newest = last?.attempts.at(-1);
  return {
    ...listedView(subscription),
    figures,
    failuresInARow: health.failures,
    failingSince: timeOf(health.failingSince),
    restsUntil: timeOf(health.restsUntil),
    recentAttempts,
    lastDelivery: last && {
      eventId: last.eventId,
      status: last.status,
      at: isoTime(last.updatedAt),
      statusCode: newest?.statusCode,
      error: newest?.error,
    },
  };
}
