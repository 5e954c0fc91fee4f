/** The test event: one attempt, now, whatever the state of the subscription. */
import { z } from "zod";
import { auditChange } from "../../records/audit-trail.ts";
import type { SubscriptionCache } from "../../subscriptions/subscriptions.ts";
import type { Attempt } from "../../model/attempt.ts";
import type { EventTypes } from "../../model/event-type.ts";
import { invalidFields } from "../../model/problem.ts";
import type { Subscription } from "../../model/subscription.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Storage } from "../../ports/storage.ts";
import { type AnyOperation, operation } from "../http/operation.ts";
import { attempt as shape } from "./shapes.ts";
import { attemptView } from "./views.ts";
import { findReadable, WEBHOOK } from "./subscriptions.ts";

/** Sends `relay:ping`, or the example, once. It changes neither health nor circuit breaker. */
export type TestEventSender = (
  subscription: Subscription,
  signal: AbortSignal,
  example?: { readonly type: string; readonly data: unknown },
) => Promise<{
  readonly ordinal: string;
  readonly attempt: Attempt;
  /** The connection that the subscription's URL names is away. */
  readonly away?: boolean;
}>;

/** In words of its own, which name no address. */
const AWAY = "the connection that the URL names is away: deliveries wait until it is back";

const body = z
  .strictObject({
    type: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .meta({
        description: "An event type whose example is sent. Without it `relay:ping` is sent.",
        examples: ["deposit:paid"],
      }),
  })
  .meta({ id: "TestEventRequest" });

export function testEventOperations(deps: {
  readonly ping?: TestEventSender | undefined;
  /** What the config says of the event types now, by name. */
  readonly types?: (() => EventTypes | undefined) | undefined;
  readonly subscriptionCache: SubscriptionCache;
  readonly storage: Pick<Storage, "commit">;
  readonly clock: Pick<Clock, "now">;
}): readonly AnyOperation[] {
  const { ping, subscriptionCache, storage, clock } = deps;
  if (ping === undefined) return [];

  /** @throws Problem VALIDATION_FAILED when the type has none */
  function exampleOf(type: string) {
    const types = deps.types?.() ?? {};
    const data = Object.hasOwn(types, type) ? types[type]?.example : undefined;
    if (data !== undefined) return { type, data };
    const errors = [{ path: "type", message: "names no event type that has an example" }];
    throw invalidFields(errors);
  }

  return [
    operation({
      method: "POST",
      path: `${WEBHOOK}/test`,
      summary: "Send a test event now, once",
      tag: "Subscriptions",
      portal: true,
      body,
      bodyOptional: true,
      reply: { status: 200, data: shape },
      // Its stored record is damaged.
      problems: ["CONFLICT"],
      async handle({ keyId, params, actor, call, body: { type } }) {
        const subscription = await findReadable(subscriptionCache, keyId, params["subscriptionId"] ?? "");
        const example = type === undefined ? undefined : exampleOf(type);
        const detail = type === undefined ? {} : { detail: `example of ${type}` };
        const line = { action: "subscription.tested", target: subscription.id, ...detail } as const;
        await storage.commit([auditChange(keyId, actor, clock, line)]);
        const { ordinal, attempt, away } = await ping(subscription, call.signal, example);
        const view = attemptView({ ordinal, subscriptionId: subscription.id }, attempt);
        return { data: away === true ? { ...view, detail: AWAY } : view };
      },
    }),
  ];
}
