/** Tries a pending delivery now, or cancels it. */
import { auditChange } from "../../records/audit-trail.ts";
import type { Actor } from "../../model/audit.ts";
import type { PendingDeliveries } from "../../replay/pending.ts";
import type { Clock } from "../../ports/clock.ts";
import { type AnyOperation, operation } from "../http/operation.ts";
import { probe, type Receivers, refuseResting } from "./expected-receivers.ts";

const DELIVERY = "/api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}";
const tag = "Deliveries";
const problems = ["NOT_PENDING", "DELIVERY_UNDER_WAY", "CONFLICT"] as const;

export interface PendingDeps extends Receivers {
  readonly pending: PendingDeliveries;
  readonly clock: Pick<Clock, "now">;
}

/** Acts on one delivery, with its audit line. @throws Problem */
type ActOnDelivery = (
  deps: PendingDeps,
  at: { readonly keyId: string; readonly eventId: string; readonly subscriptionId: string },
  actor: Actor,
) => Promise<void>;

const lineOf =
  (deps: PendingDeps, { keyId, eventId, subscriptionId }: Parameters<ActOnDelivery>[1], actor: Actor) =>
  (action: "delivery.tried" | "delivery.cancelled") => [
    auditChange(keyId, actor, deps.clock, { action, target: eventId, detail: subscriptionId }),
  ];

/** A receiver that asked for rest is left alone; a breaker lets this attempt through. */
export const tryNow: ActOnDelivery = async (deps, at, actor) => {
  refuseResting(deps, [at.subscriptionId]);
  await deps.pending.tryNow(at.keyId, at.eventId, at.subscriptionId, lineOf(deps, at, actor)("delivery.tried"));
  await probe(deps, [at.subscriptionId]);
};

export const cancel: ActOnDelivery = (deps, at, actor) =>
  deps.pending.cancel(at.keyId, at.eventId, at.subscriptionId, lineOf(deps, at, actor)("delivery.cancelled"));

export function pendingOperations(deps: PendingDeps): readonly AnyOperation[] {
  const at = (keyId: string, params: Readonly<Record<string, string>>) => ({
    keyId,
    eventId: params["eventId"] ?? "",
    subscriptionId: params["subscriptionId"] ?? "",
  });
  return [
    operation({
      method: "POST",
      path: `${DELIVERY}/attempt`,
      summary: "Make the next attempt of a pending delivery now; it counts like any other",
      tag,
      portal: true,
      reply: { status: 204 },
      problems: [...problems, "PROVIDER_BACKPRESSURE"],
      async handle({ keyId, params, actor }) {
        await tryNow(deps, at(keyId, params), actor);
        return {};
      },
    }),
    operation({
      method: "POST",
      path: `${DELIVERY}/cancel`,
      summary: "Cancel a pending delivery; a replay to this subscription sends it all the same",
      tag,
      portal: true,
      reply: { status: 204 },
      problems,
      async handle({ keyId, params, actor }) {
        await cancel(deps, at(keyId, params), actor);
        return {};
      },
    }),
  ];
}
