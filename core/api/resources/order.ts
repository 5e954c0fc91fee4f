/** The order of a subscription: what waits for its turn, what holds it up, and skipping that. */
import { z } from "zod";
import { isoTime } from "../../lib/time.ts";
import { deliveryId } from "../../model/delivery.ts";
import { auditChange } from "../../records/audit-trail.ts";
import { heldOfSubscription, skipHeld } from "../../records/held.ts";
import { countWaiting } from "../../records/sequence-rows.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import type { ResourceDeps } from "./deps.ts";
import { note, time } from "./fields.ts";
import { findSubscription, WEBHOOK } from "./subscriptions.ts";

const operation = operationsOf("Deliveries");

const held = z
  .strictObject({ eventId: z.string(), deliveryId: z.string(), since: time })
  .partial()
  .meta({ id: "HeldDelivery" });
export const orderShown = z
  .strictObject({
    ordered: z.boolean(),
    waiting: note(z.int(), "Deliveries that wait for their turn."),
    held: note(
      z.array(held),
      "Failed deliveries that hold up those behind them. One whose record is damaged is empty.",
    ),
  })
  .meta({ id: "Order" });
const body = z
  .strictObject({ eventId: note(z.string().max(128).optional(), "Only the held delivery of this event.") })
  .meta({ id: "Skip" });

export const orderOperations = ({ subscriptionCache, storage, clock }: ResourceDeps): readonly AnyOperation[] => [
  operation(`GET ${WEBHOOK}/order`, {
    id: "getOrder",
    summary: "Show what of an ordered subscription waits for its turn, and what holds it up",
    portal: true,
    reply: { status: 200, data: orderShown },
    async handle({ keyId, subscriptionId }) {
      const sub = await findSubscription(subscriptionCache, keyId, subscriptionId);
      const view = (await heldOfSubscription(storage, sub.id)).map(({ row }) =>
        row === undefined
          ? {}
          : { eventId: row.eventId, deliveryId: deliveryId(row.ordinal, sub.id), since: isoTime(row.since) },
      );
      const waiting = await countWaiting(storage, keyId, sub.id);
      return { data: { ordered: sub.ordered === true, waiting, held: view } };
    },
  }),
  operation(`POST ${WEBHOOK}/skip`, {
    id: "skipHeldDeliveries",
    summary: "Skip failed deliveries that hold up those behind them; they stay failed and replayable",
    portal: true,
    body,
    bodyOptional: true,
    reply: { status: 200, data: z.strictObject({ skipped: z.int() }).meta({ id: "Skipped" }) },
    problems: ["CONFLICT"],
    async handle({ keyId, subscriptionId, body: { eventId }, actor }) {
      const sub = await findSubscription(subscriptionCache, keyId, subscriptionId);
      let skipped = 0;
      for (const one of await heldOfSubscription(storage, sub.id)) {
        if (eventId !== undefined && one.row?.eventId !== eventId) continue;
        const detail = one.row?.eventId ?? "a damaged record";
        const line = { action: "delivery.skipped", target: sub.id, detail } as const;
        if (await skipHeld(storage, keyId, one, [auditChange(keyId, actor, clock, line)])) skipped++;
      }
      return { data: { skipped } };
    },
  }),
];
