/** One subscription's deliveries, and the replay of many at once. */
import { z } from "zod";
import { auditChange } from "../../records/audit-trail.ts";
import type { Actor } from "../../model/audit.ts";
import type { History } from "../../history/history.ts";
import type { Replay, BulkReplayed } from "../../replay/replay.ts";
import type { SubscriptionCache } from "../../subscriptions/subscriptions.ts";
import { isLive, type Subscription } from "../../model/subscription.ts";
import { noSuch, Problem } from "../../model/problem.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Storage } from "../../ports/storage.ts";
import type { Cursors } from "../http/cursor.ts";
import { type AnyOperation, operation } from "../http/operation.ts";
import { probe, type Receivers, refuseResting } from "./expected-receivers.ts";
import { bulkReplayBody, DEFAULT_LIMIT, deliveriesQuery } from "./schemas.ts";
import { listedDelivery } from "./listed-event.ts";
import { bulkReplayed } from "./shapes.ts";
import { namesOf } from "./subscription-names.ts";
import { deliveryView } from "./views.ts";
import { findSubscription, WEBHOOK } from "./subscriptions.ts";

type BulkReplay = z.output<typeof bulkReplayBody>;
const tag = "Deliveries";

export function deliveryOperations(
  deps: Receivers & {
    readonly history: History;
    readonly replay: Replay;
    readonly subscriptionCache: SubscriptionCache;
    readonly storage: Pick<Storage, "commit">;
    readonly cursors: Cursors;
    readonly clock: Pick<Clock, "now" | "monotonic">;
  },
): readonly AnyOperation[] {
  const { history, replay, subscriptionCache, storage, cursors, clock } = deps;

  /** The audit line is stored first: the replay is many commits, and each must be on the trail. */
  async function noteReplay(keyId: string, target: string, actor: Actor, asked: BulkReplay): Promise<void> {
    if (asked.dryRun) return;
    const detail = `at most ${asked.limit}, ${asked.perSecond} a second`;
    const line = { action: "deliveries.replayed", target, detail } as const;
    await storage.commit([auditChange(keyId, actor, clock, line)]);
  }

  async function replayAll(subscriptions: readonly Subscription[], asked: BulkReplay): Promise<BulkReplayed> {
    const { limit, perSecond, ...range } = asked;
    const began = clock.monotonic();
    let matched = 0;
    let moved = 0;
    let more = false;
    for (const subscription of subscriptions) {
      const startsInMs = (moved * 1_000) / perSecond - (clock.monotonic() - began);
      const left = limit - (asked.dryRun ? matched : moved);
      if (left === 0) return { matched, replayed: moved, more: true };
      const went = await replay.failed({ ...range, subscription, limit: left, perSecond, startsInMs });
      if (went.replayed > 0) await probe(deps, [subscription.id]);
      matched += went.matched;
      moved += went.replayed;
      more ||= went.more;
    }
    return { matched, replayed: moved, more };
  }

  return [
    operation({
      method: "GET",
      path: `${WEBHOOK}/deliveries`,
      summary: "List one subscription's deliveries, newest event first",
      tag,
      portal: true,
      query: deliveriesQuery,
      reply: { status: 200, data: z.array(listedDelivery), paged: true },
      async handle({ keyId, params, query }) {
        const { cursor, limit = DEFAULT_LIMIT, status } = query;
        const id = params["subscriptionId"] ?? "";
        const list = `deliveries:${keyId}:${id}:${status ?? ""}`;
        const after = cursors.read(cursor, list);
        const subscription = await findSubscription(subscriptionCache, keyId, id);
        const { items, next } = await history.deliveries(subscription, status, { after, limit });
        const names = await namesOf(subscriptionCache, keyId, [id]);
        const data = items.map((item) => ({
          eventId: item.delivery.eventId,
          type: item.type,
          ...deliveryView(item, names),
        }));
        return { data, nextCursor: cursors.write(next, list) };
      },
    }),
    operation({
      method: "POST",
      path: `${WEBHOOK}/replay`,
      summary: "Send one subscription's failed deliveries again",
      tag,
      portal: true,
      body: bulkReplayBody,
      bodyOptional: true,
      reply: { status: 202, data: bulkReplayed },
      problems: ["NOT_REPLAYABLE", "PROVIDER_BACKPRESSURE"],
      async handle({ keyId, params, body, actor }) {
        const subscription = await subscriptionCache.get(keyId, params["subscriptionId"] ?? "");
        if (subscription === undefined) throw noSuch("subscription");
        if (!isLive(subscription) || subscription.status !== "active") {
          throw new Problem("NOT_REPLAYABLE", "The subscription is not active.");
        }
        if (!body.dryRun) refuseResting(deps, [subscription.id]);
        await noteReplay(keyId, subscription.id, actor, body);
        return { data: await replayAll([subscription], body) };
      },
    }),
    operation({
      method: "POST",
      path: "/api-keys/{keyId}/replay",
      summary: "Send the failed deliveries of a key's active subscriptions again",
      tag,
      portal: true,
      body: bulkReplayBody,
      bodyOptional: true,
      reply: { status: 202, data: bulkReplayed },
      problems: ["PROVIDER_BACKPRESSURE"],
      async handle({ keyId, body, actor }) {
        const active = (await subscriptionCache.of(keyId)).filter(({ status }) => status === "active");
        const ids = active.map(({ id }) => id);
        if (!body.dryRun) refuseResting(deps, ids);
        await noteReplay(keyId, keyId, actor, body);
        return { data: await replayAll(active, body) };
      },
    }),
  ];
}
