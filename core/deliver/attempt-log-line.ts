/** Builds the one wide log line of an attempt: every field about it, but no body, secret or URL. */
import type { Attempt, Outcome } from "../model/attempt.ts";
import { attemptId, deliveryId, type Delivery } from "../model/delivery.ts";
import type { LogFields } from "../ports/plugin.ts";

/** @param traceparent the event's, W3C */
export function attemptLine(delivery: Delivery, made: Attempt, outcome: Outcome, traceparent?: string): LogFields {
  const { eventId, keyId, subscriptionId, ordinal, cycle } = delivery;
  return {
    attemptId: attemptId(ordinal, subscriptionId, cycle, made.number),
    deliveryId: deliveryId(ordinal, subscriptionId),
    eventId,
    traceId: traceparent?.slice(3, 35),
    keyId,
    subscriptionId,
    cycle,
    attempt: made.number,
    statusCode: made.statusCode,
    error: made.error,
    durationMs: made.durationMs,
    outcome: outcome.kind,
    nextAttemptAt: outcome.kind === "retry" ? outcome.at : undefined,
  };
}
