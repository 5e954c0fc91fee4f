/** The attempts of one delivery, those before its replays too, and the attempts of a key over all its events. */
import { z } from "zod";
import { isoTime } from "../../lib/time.ts";
import { withoutAddresses } from "../../lib/without-addresses.ts";
import type { Attempt } from "../../model/attempt.ts";
import { attemptId, type Delivery } from "../../model/delivery.ts";
import { noSuch } from "../../model/problem.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import type { ResourceDeps } from "./deps.ts";
import { attemptErrors, deliveryStatuses, digits, isSpan, moment, NO_SPAN, note, time } from "./fields.ts";
import { DEFAULT_LIMIT, pageQuery, paging } from "./lists.ts";
import { subscriptionName } from "./subscription-schema.ts";
import { namesOf } from "./subscriptions.ts";

const operation = operationsOf("Deliveries");

export const attempt = z
  .strictObject({
    id: z.string(),
    cycle: z.int(),
    number: z.int(),
    startedAt: time,
    durationMs: z.number(),
    statusCode: z.int().optional(),
    error: attemptErrors.optional(),
    detail: note(
      z.string().optional(),
      "Why it failed, and what to do, without addresses: what of the name, the connection or TLS failed, which rule of the guard refused, what the OAuth 2 server answered, why the transform made no body. Of a test event, that the connection of its URL is away.",
    ),
    responseExcerpt: z.string().optional(),
    responseTruncated: z.boolean().optional(),
    transform: note(z.string().optional(), "The transform that made the body."),
  })
  .meta({ id: "Attempt" });

/** An attempt with its event and its delivery. */
const foundAttempt = attempt
  .extend({
    eventId: z.string(),
    type: z.string(),
    acceptedAt: time,
    subscriptionId: z.string(),
    subscriptionName,
    deliveryStatus: deliveryStatuses,
  })
  .meta({ id: "FoundAttempt" });

const SAME = "`statusCode`, `error` and `minDurationMs` together mean one attempt, of the newest cycle of a delivery.";
/** The part of a query that an attempt must match. */
export const attempted = {
  statusCode: note(digits(100, 599).optional(), `What an attempt was answered. ${SAME}`),
  error: note(attemptErrors.optional(), `The stage at which an attempt failed. ${SAME}`),
  minDurationMs: note(digits(0, 3_600_000).optional(), `How long an attempt took, in milliseconds, at least. ${SAME}`),
};
const attemptsQuery = z
  .strictObject({
    subscriptionId: z.string().max(64).optional(),
    since: note(moment.optional(), "Of events that were accepted then or later."),
    until: note(moment.optional(), "Of events that were accepted before."),
    ...attempted,
    ...paging,
  })
  .refine(isSpan, NO_SPAN);

export function attemptView(delivery: Pick<Delivery, "ordinal" | "subscriptionId">, one: Attempt): object {
  return {
    id: attemptId(delivery.ordinal, delivery.subscriptionId, one.cycle, one.number),
    cycle: one.cycle,
    number: one.number,
    startedAt: isoTime(one.startedAt),
    durationMs: one.durationMs,
    statusCode: one.statusCode,
    error: one.error,
    // An address that a name stands for may tell a subscriber of an inner network. The log has it.
    detail: one.detail && withoutAddresses(one.detail),
    responseExcerpt: one.responseExcerpt,
    responseTruncated: one.responseTruncated,
    transform: one.transform,
  };
}

export const attemptOperations = (deps: ResourceDeps): readonly AnyOperation[] => [search(deps), ofDelivery(deps)];

const search = ({ searchAttempts, subscriptionCache, attemptPlaces }: ResourceDeps) =>
  operation("GET /api-keys/{keyId}/attempts", {
    id: "listAttempts",
    summary:
      "List the attempts of a key, newest event first, of the newest cycle of each delivery; each page looks at a bounded number of events",
    portal: true,
    query: attemptsQuery,
    reply: { status: 200, data: z.array(foundAttempt), paged: true },
    async handle({ keyId, query: { cursor, limit = DEFAULT_LIMIT, ...filter } }) {
      const list = `attempts:${keyId}:${JSON.stringify(filter)}`;
      const after = attemptPlaces.read(cursor, list);
      const { items, next, searchedTo } = await searchAttempts(keyId, filter, { after, limit });
      const ids = items.map(({ delivery }) => delivery.subscriptionId);
      const names = await namesOf(subscriptionCache, keyId, ids);
      return {
        data: items.map(({ event, delivery, attempt: one }) => ({
          eventId: event.id,
          type: event.type,
          acceptedAt: isoTime(event.acceptedAt),
          subscriptionId: delivery.subscriptionId,
          subscriptionName: names.get(delivery.subscriptionId),
          deliveryStatus: delivery.status,
          ...attemptView(delivery, one),
        })),
        nextCursor: attemptPlaces.write(next, list),
        searchedTo,
      };
    },
  });

const ofDelivery = ({ attempts, places }: ResourceDeps) =>
  operation("GET /api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/attempts", {
    id: "listDeliveryAttempts",
    summary: "List the attempts of a delivery over all its replays, newest first",
    portal: true,
    query: pageQuery,
    reply: { status: 200, data: z.array(attempt), paged: true },
    async handle({ keyId, eventId, subscriptionId, query: { cursor, limit = DEFAULT_LIMIT } }) {
      const list = `attempts:${keyId}:${eventId}:${subscriptionId}`;
      const place = places.read(cursor, list);
      const before = place === undefined ? undefined : Number(place);
      const page = await attempts.page(keyId, eventId, subscriptionId, { before, limit });
      if (page === undefined) throw noSuch("delivery");
      const { delivery, next } = page;
      const data = page.attempts.map((one) => attemptView(delivery, one));
      return { data, nextCursor: places.write(next?.toString(), list) };
    },
  });
