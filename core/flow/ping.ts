/** The test event: one attempt of `relay:ping`, now, whatever the state of the subscription. It is stored nowhere. */
import type { Attempt } from "../model/attempt.ts";
import { deliveryBody, type RelayEvent } from "../model/event.ts";
import { ordinalTime, ordinals } from "../model/ids.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Send } from "./send.ts";

export interface Pinged {
  readonly ordinal: string;
  readonly attempt: Attempt;
}

/** Touches neither health nor breaker, and is never retried. @throws the signal's reason, or a fault of ours */
export type SendPing = (subscription: Subscription, signal: AbortSignal) => Promise<Pinged>;

export function createPing(deps: { readonly send: Send; readonly clock: Clock }): SendPing {
  const mint = ordinals(() => deps.clock.now());
  return async (subscription, signal) => {
    const ordinal = mint();
    const at = ordinalTime(ordinal);
    const id = `evt_${ordinal}`;
    const data = JSON.stringify({ subscriptionId: subscription.id });
    const event: RelayEvent = {
      id,
      type: "relay:ping",
      keyId: subscription.keyId,
      ordinal,
      createdAt: at,
      acceptedAt: at,
      subscriptionIds: [subscription.id],
      body: deliveryBody(id, "relay:ping", subscription.keyId, at, data),
    };
    const loaded = { event, body: Buffer.from(event.body, "utf8") };
    const { attempt } = await deps.send(subscription, loaded, { cycle: 0, number: 1 }, signal);
    return { ordinal, attempt };
  };
}
