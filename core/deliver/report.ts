/** Reports an attempt once its result is stored: metrics, its one log line, then the observers. */
import type { Attempt, Outcome } from "../model/attempt.ts";
import { attemptId, deliveryId, type Delivery } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { ordinalTime } from "../model/ids.ts";
import type { Subscription } from "../model/subscription.ts";
import type { AttemptObserver } from "../ports/observer.ts";
import type { Log, LogFields, Metrics } from "../ports/plugin.ts";

/** Reports one attempt. Call it once, after its commit. */
export type Report = (
  sub: Subscription,
  delivery: Delivery,
  made: Attempt,
  outcome: Outcome,
  event: Pick<RelayEvent, "type" | "traceparent">,
) => void;

/** @param deps.attempted called last, after the metrics and the log line */
export function createReport(deps: {
  readonly metrics: Metrics;
  readonly log: Log;
  readonly attempted: AttemptObserver;
}): Report {
  const { metrics, log, attempted } = deps;
  return (sub, delivery, made, outcome, { type, traceparent }) => {
    const result = made.statusCode === undefined ? (made.error as string) : `${Math.floor(made.statusCode / 100)}xx`;
    metrics.count("attempts", { result });
    metrics.observe("attempt_seconds", made.durationMs / 1000);
    if (made.number === 1 && delivery.cycle === 0) {
      metrics.observe("accept_to_first_attempt_seconds", (made.startedAt - ordinalTime(delivery.ordinal)) / 1000);
    }
    if (outcome.kind !== "retry") metrics.count("deliveries", { outcome: outcome.kind });
    log.info("attempt", attemptLine(delivery, made, outcome, traceparent));
    attempted(sub, delivery, made, outcome, type);
  };
}

/** Builds the one wide log line of an attempt: every field about it, but no body, secret or URL. */
function attemptLine(delivery: Delivery, made: Attempt, outcome: Outcome, traceparent?: string): LogFields {
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
