/** Counts an accepted event, and writes its line in the log. */
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Accepted, AcceptRequest } from "../ports/source.ts";

export function reportAccepted(
  { metrics, log }: { readonly metrics: Pick<Metrics, "count">; readonly log: Pick<Log, "info"> },
  { requestId, source, traceparent }: AcceptRequest,
  one: Accepted,
  durationMs: number,
): void {
  metrics.count(one.duplicate ? "duplicates" : "accepted", { source });
  const { id: eventId, type, keyId, deliveries, duplicate } = one;
  const traceId = traceparent?.slice(3, 35);
  log.info("accepted", { requestId, traceId, source, eventId, type, keyId, deliveries, duplicate, durationMs });
}
