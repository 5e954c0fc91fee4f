/** The deliveries of one subscription, and the replay of many at once. */
import { z } from "zod";
import { isoTime } from "../../lib/time.ts";
import type { Actor } from "../../model/audit.ts";
import { deliveryId } from "../../model/delivery.ts";
import { ordinalTime } from "../../model/ids.ts";
import { noSuch, Problem } from "../../model/problem.ts";
import { isLive, type Subscription } from "../../model/subscription.ts";
import type { DeliveryDetail } from "../../history/history.ts";
import { auditChange } from "../../records/audit-trail.ts";
import type { BulkReplayed } from "../../replay/replay.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import { attempt, attemptView } from "./attempts.ts";
import { probe, refuseResting } from "./delivery-actions.ts";
import type { ResourceDeps } from "./deps.ts";
import { deliveryStatuses, isSpan, moment, NO_SPAN, note, number, time, whole } from "./fields.ts";
import { DEFAULT_LIMIT, paging } from "./lists.ts";
import { subscriptionName } from "./subscription-schema.ts";
import { findSubscription, namesOf, WEBHOOK } from "./subscriptions.ts";

const operation = operationsOf("Deliveries");

const reason = z.enum([
  "exhausted",
  "endpoint_gone",
  "receiver_disabled",
  "receiver_aborted",
  "subscription_disabled",
  "subscription_deleted",
  "cancel_requested",
  "record_damaged",
]);
const delivery = {
  id: z.string(),
  subscriptionId: z.string(),
  subscriptionName,
  status: deliveryStatuses,
  reason: reason.optional(),
  cycle: z.int(),
  attempts: z.array(attempt),
  inOrder: note(z.literal(true).optional(), "It goes in order. Before its first attempt it may wait for its turn."),
  nextAttemptAt: time.optional(),
  updatedAt: time,
};
export const eventDelivery = z.strictObject(delivery).meta({ id: "EventDelivery" });
const type = note(z.string().optional(), "Of its event. Left out where that is gone or damaged.");
export const listedDelivery = z.strictObject({ eventId: z.string(), type, ...delivery }).meta({ id: "Delivery" });

const bulkReplayBody = z
  .strictObject({
    since: moment.optional(),
    until: moment.optional(),
    dryRun: z.boolean().default(false),
    limit: whole(1, 10_000).default(10_000),
    perSecond: number(0.1, 1_000).default(50),
  })
  .refine(isSpan, NO_SPAN)
  .meta({ id: "BulkReplay" });
type BulkReplay = z.output<typeof bulkReplayBody>;
export const bulkReplayed = z
  .strictObject({ matched: z.int(), replayed: z.int(), more: z.boolean() })
  .meta({ id: "BulkReplayed" });

export function deliveryView({ delivery: one, attempts }: DeliveryDetail, names: ReadonlyMap<string, string>): object {
  const { ordinal, subscriptionId, nextAttemptAt, order } = one;
  // Before the first attempt of one that goes in order, its time says nothing about its turn.
  const timed = nextAttemptAt !== undefined && (order === undefined || attempts.length > 0);
  return {
    id: deliveryId(ordinal, subscriptionId),
    subscriptionId,
    subscriptionName: names.get(subscriptionId),
    status: one.status,
    reason: one.reason,
    cycle: one.cycle,
    attempts: attempts.map((made) => attemptView(one, made)),
    inOrder: order === undefined ? undefined : true,
    nextAttemptAt: timed ? isoTime(nextAttemptAt) : undefined,
    updatedAt: isoTime(one.updatedAt),
  };
}

export const deliveryOperations = (deps: ResourceDeps): readonly AnyOperation[] => [
  list(deps),
  replayOfSubscription(deps),
  replayOfKey(deps),
];

const list = ({ history, subscriptionCache, cursors }: ResourceDeps) =>
  operation(`GET ${WEBHOOK}/deliveries`, {
    id: "listDeliveries",
    summary: "List one subscription's deliveries, newest event first",
    portal: true,
    query: z.strictObject({ status: deliveryStatuses.optional(), ...paging }),
    reply: { status: 200, data: z.array(listedDelivery), paged: true },
    async handle({ keyId, subscriptionId: id, query: { cursor, limit = DEFAULT_LIMIT, status } }) {
      const place = `deliveries:${keyId}:${id}:${status ?? ""}`;
      const after = cursors.read(cursor, place);
      const subscription = await findSubscription(subscriptionCache, keyId, id);
      const { items, next } = await history.deliveries(subscription, status, { after, limit });
      const names = await namesOf(subscriptionCache, keyId, [id]);
      const data = items.map((one) => ({ eventId: one.delivery.eventId, type: one.type, ...deliveryView(one, names) }));
      const searchedTo = next === undefined ? undefined : ordinalTime(next);
      return { data, nextCursor: cursors.write(next, place), searchedTo };
    },
  });

const bulk = {
  portal: true,
  body: bulkReplayBody,
  bodyOptional: true,
  reply: { status: 202, data: bulkReplayed },
} as const;

const replayOfSubscription = (deps: ResourceDeps) =>
  operation(`POST ${WEBHOOK}/replay`, {
    id: "replaySubscription",
    summary: "Send one subscription's failed deliveries again",
    ...bulk,
    problems: ["NOT_REPLAYABLE", "PROVIDER_BACKPRESSURE"],
    async handle({ keyId, subscriptionId, body, actor }) {
      const subscription = await deps.subscriptionCache.get(keyId, subscriptionId);
      if (subscription === undefined) throw noSuch("subscription");
      if (!isLive(subscription) || subscription.status !== "active")
        throw new Problem("NOT_REPLAYABLE", "The subscription is not active.");
      return { data: await replayAll(deps, [subscription], body, { keyId, target: subscription.id, actor }) };
    },
  });

const replayOfKey = (deps: ResourceDeps) =>
  operation("POST /api-keys/{keyId}/replay", {
    id: "replayApiKey",
    summary: "Send the failed deliveries of a key's active subscriptions again",
    ...bulk,
    problems: ["PROVIDER_BACKPRESSURE"],
    async handle({ keyId, body, actor }) {
      const active = (await deps.subscriptionCache.of(keyId)).filter(({ status }) => status === "active");
      return { data: await replayAll(deps, active, body, { keyId, target: keyId, actor }) };
    },
  });

/** Replays one subscription after the other. The audit line is stored first: each of the many commits must be on the trail. */
async function replayAll(
  deps: ResourceDeps,
  subscriptions: readonly Subscription[],
  asked: BulkReplay,
  { keyId, target, actor }: { readonly keyId: string; readonly target: string; readonly actor: Actor },
): Promise<BulkReplayed> {
  const { replay, storage, clock } = deps;
  const { limit, perSecond, ...range } = asked;
  if (!asked.dryRun) {
    const ids = subscriptions.map(({ id }) => id);
    refuseResting(deps, ids);
    const line = { action: "deliveries.replayed", target, detail: `at most ${limit}, ${perSecond} a second` } as const;
    await storage.commit([auditChange(keyId, actor, clock, line)]);
  }
  const began = clock.monotonic();
  let matched = 0;
  let replayed = 0;
  let more = false;
  for (const subscription of subscriptions) {
    const startsInMs = (replayed * 1_000) / perSecond - (clock.monotonic() - began);
    const left = limit - (asked.dryRun ? matched : replayed);
    if (left === 0) return { matched, replayed, more: true };
    const went = await replay.failed({ ...range, subscription, limit: left, perSecond, startsInMs });
    if (went.replayed > 0) await probe(deps, [subscription.id]);
    matched += went.matched;
    replayed += went.replayed;
    more ||= went.more;
  }
  return { matched, replayed, more };
}
