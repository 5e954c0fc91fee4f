/** The attempts of one delivery, those before its replays too, and the attempts of a key over all its events. */
import { z } from "zod";
import type { SubscriptionCache } from "../../subscriptions/subscriptions.ts";
import type { AttemptHistory } from "../../history/attempts.ts";
import type { Cursors } from "../http/cursor.ts";
import { type AnyOperation, operation } from "../http/operation.ts";
import { DEFAULT_LIMIT, pageQuery } from "./schemas.ts";
import type { AttemptSearch } from "../../history/attempt-search.ts";
import { isoTime } from "../../lib/time.ts";
import { noSuch } from "../../model/problem.ts";
import { attemptsQuery } from "./events-query.ts";
import { attempt, time } from "./shapes.ts";
import { deliveryStatuses } from "./statuses.ts";
import { namesOf, subscriptionName } from "./subscription-names.ts";
import { attemptView } from "./views.ts";

const ATTEMPTS_PATH = "/api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/attempts";

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

export function attemptOperations(deps: {
  readonly attempts: AttemptHistory;
  readonly searchAttempts: AttemptSearch;
  readonly subscriptionCache: Pick<SubscriptionCache, "get">;
  /** Cursors that hold a number. */
  readonly places: Cursors;
  /** Cursors that hold a place among the attempts of a key. */
  readonly attemptPlaces: Cursors;
}): readonly AnyOperation[] {
  const { attempts, searchAttempts, subscriptionCache, places, attemptPlaces } = deps;
  return [
    operation({
      method: "GET",
      path: "/api-keys/{keyId}/attempts",
      summary:
        "List the attempts of a key, newest event first, of the newest cycle of each delivery; each page looks at a bounded number of events",
      tag: "Deliveries",
      portal: true,
      query: attemptsQuery,
      reply: { status: 200, data: z.array(foundAttempt), paged: true },
      async handle({ keyId, query }) {
        const { cursor, limit = DEFAULT_LIMIT, ...filter } = query;
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
          ...(searchedTo !== undefined && { searchedTo }),
        };
      },
    }),
    operation({
      method: "GET",
      path: ATTEMPTS_PATH,
      summary: "List the attempts of a delivery over all its replays, newest first",
      tag: "Deliveries",
      portal: true,
      query: pageQuery,
      reply: { status: 200, data: z.array(attempt), paged: true },
      async handle({ keyId, params, query }) {
        const { cursor, limit = DEFAULT_LIMIT } = query;
        const { eventId = "", subscriptionId = "" } = params;
        const list = `attempts:${keyId}:${eventId}:${subscriptionId}`;
        const place = places.read(cursor, list);
        const before = place === undefined ? undefined : Number(place);
        const page = await attempts.page(keyId, eventId, subscriptionId, { before, limit });
        if (page === undefined) throw noSuch("delivery");
        const { delivery, next } = page;
        return {
          data: page.attempts.map((one) => attemptView(delivery, one)),
          nextCursor: places.write(next === undefined ? undefined : String(next), list),
        };
      },
    }),
  ];
}
