/** The test event: one attempt, now, whatever the state of the subscription. */
import { auditChange } from "../../records/audit-trail.ts";
import type { SubscriptionCache } from "../../subscriptions/subscriptions.ts";
import type { Attempt } from "../../model/attempt.ts";
import type { Subscription } from "../../model/subscription.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Storage } from "../../ports/storage.ts";
import { operation } from "../http/operation.ts";
import type { AnyOperation } from "../http/operation.ts";
import { attempt as shape } from "./shapes.ts";
import { attemptView } from "./views.ts";
import { findSubscription, WEBHOOK } from "./subscriptions.ts";

/** Sends `relay:ping` once. It changes neither health nor circuit breaker. */
export type TestEventSender = (
  subscription: Subscription,
  signal: AbortSignal,
) => Promise<{
  readonly ordinal: string;
  readonly attempt: Attempt;
  /** The connection that the subscription's URL names is away. */
  readonly away?: boolean;
}>;

/** In words of its own, which name no address. */
const AWAY = "the connection that the URL names is away: deliveries wait until it is back";

export function testEventOperations(deps: {
  readonly ping?: TestEventSender | undefined;
  readonly subscriptionCache: SubscriptionCache;
  readonly storage: Pick<Storage, "commit">;
  readonly clock: Pick<Clock, "now">;
  readonly ordinal: () => string;
}): readonly AnyOperation[] {
  const { ping, subscriptionCache, storage, clock, ordinal: nextOrdinal } = deps;
  if (ping === undefined) return [];
  return [
    operation({
      method: "POST",
      path: `${WEBHOOK}/test`,
      summary: "Send a test event now, once",
      tag: "Subscriptions",
      reply: { status: 200, data: shape },
      async handle({ keyId, params, actor, call }) {
        const subscription = await findSubscription(subscriptionCache, keyId, params["subscriptionId"] ?? "");
        const line = { action: "subscription.tested", target: subscription.id } as const;
        await storage.commit([auditChange(keyId, nextOrdinal(), actor, clock.now(), line)]);
        const { ordinal, attempt, away } = await ping(subscription, call.signal);
        const view = attemptView({ ordinal, subscriptionId: subscription.id }, attempt);
        return { data: away === true ? { ...view, detail: AWAY } : view };
      },
    }),
  ];
}
