/** The order of a subscription: what waits for its turn, what holds it up, and skipping that. */
import { z } from "zod";
import { deliveryId } from "../../model/delivery.ts";
import { isoTime } from "../../lib/time.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Storage } from "../../ports/storage.ts";
import { auditChange } from "../../records/audit-trail.ts";
import { heldOfSubscription, skipHeld } from "../../records/held.ts";
import { countWaiting } from "../../records/sequence-rows.ts";
import type { SubscriptionCache } from "../../subscriptions/subscriptions.ts";
import { type AnyOperation, operation } from "../http/operation.ts";
import { orderShown, skipped } from "./shapes.ts";
import { findSubscription, WEBHOOK } from "./subscriptions.ts";

const tag = "Deliveries";
const body = z
  .strictObject({
    eventId: z.string().max(128).optional().meta({ description: "Only the held delivery of this event." }),
  })
  .meta({ id: "Skip" });

export function orderOperations(deps: {
  readonly subscriptionCache: SubscriptionCache;
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit" | "queue">;
  readonly clock: Pick<Clock, "now">;
}): readonly AnyOperation[] {
  const { subscriptionCache, storage, clock } = deps;
  return [
    operation({
      method: "GET",
      path: `${WEBHOOK}/order`,
      summary: "Show what of an ordered subscription waits for its turn, and what holds it up",
      tag,
      portal: true,
      reply: { status: 200, data: orderShown },
      async handle({ keyId, params }) {
        const sub = await findSubscription(subscriptionCache, keyId, params["subscriptionId"] ?? "");
        const held = await heldOfSubscription(storage, sub.id);
        const view = held.map(({ row }) =>
          row === undefined
            ? {}
            : { eventId: row.eventId, deliveryId: deliveryId(row.ordinal, sub.id), since: isoTime(row.since) },
        );
        const waiting = await countWaiting(storage, keyId, sub.id);
        return { data: { ordered: sub.ordered === true, waiting, held: view } };
      },
    }),
    operation({
      method: "POST",
      path: `${WEBHOOK}/skip`,
      summary: "Skip failed deliveries that hold up those behind them; they stay failed and replayable",
      tag,
      portal: true,
      body,
      bodyOptional: true,
      reply: { status: 200, data: skipped },
      problems: ["CONFLICT"],
      async handle({ keyId, params, body: { eventId }, actor }) {
        const sub = await findSubscription(subscriptionCache, keyId, params["subscriptionId"] ?? "");
        let count = 0;
        for (const held of await heldOfSubscription(storage, sub.id)) {
          if (eventId !== undefined && held.row?.eventId !== eventId) continue;
          const line = {
            action: "delivery.skipped",
            target: sub.id,
            detail: held.row?.eventId ?? "a damaged record",
          } as const;
          const audited = auditChange(keyId, actor, clock, line);
          if (await skipHeld(storage, keyId, held, [audited])) count++;
        }
        return { data: { skipped: count } };
      },
    }),
  ];
}
