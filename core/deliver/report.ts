/** Reports an attempt once its result is stored: metrics, its one log line, then the observers. */
import type { Attempt, Outcome } from "../model/attempt.ts";
import type { Delivery } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { ordinalTime } from "../model/ids.ts";
import type { Subscription } from "../model/subscription.ts";
import type { AttemptObserver } from "../ports/observer.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import { attemptLine } from "./attempt-log-line.ts";

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
