/**
 * Makes the spans of an event: publish → delivery → attempt.
 *
 * The context of the publish span is stored with the event, so that every node finds the parent of a delivery at any time.
 * Operational events, which the relay publishes itself, have no trace.
 */
import type { Observer } from "../../../core/ports/observer.ts";
import type { Attempt } from "../../../core/model/attempt.ts";
import { attemptId, deliveryId } from "../../../core/model/delivery.ts";
import { ordinalTime } from "../../../core/model/ids.ts";
import { Problem } from "../../../core/model/problem.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Accept, AcceptRequest } from "../../../core/ports/source.ts";
import {
  childOf,
  derivedFrom,
  parseTraceparent,
  traceparent,
  type Sampling,
  type SpanContext,
} from "./trace-context.ts";
import type { OtlpSpan } from "./exporter.ts";

type Tracing = Required<Pick<Observer, "wrapAccept" | "wrapSend" | "attempted">>;

type Take = (span: OtlpSpan) => void;

export function createTracing(sampling: Sampling, clock: Clock, take: Take): Tracing {
  /** The publish span of each attempt that was sent, until `attempted` has read it. */
  const parents = new WeakMap<Attempt, SpanContext>();
  return {
    wrapAccept: (accept) => (request) => publishTraced(accept, request, sampling, clock, take),

    wrapSend: (send) => async (sub, loaded, turn, signal) => {
      const { traceparent: text, ordinal } = loaded.event;
      if (text === undefined) return await send(sub, loaded, turn, signal);
      const publish = parseTraceparent(text);
      const delivery = deliveryContext(publish, ordinal, sub.id, turn.cycle);
      const id = attemptId(ordinal, sub.id, turn.cycle, turn.number);
      const context = derivedFrom(delivery, id);
      const event = { ...loaded.event, traceparent: traceparent(context) };
      const sent = await send(sub, { ...loaded, event }, turn, signal);
      if (!context.sampled) return sent;
      const { attempt } = sent;
      parents.set(attempt, publish);
      const attributes = {
        "http.request.method": "POST",
        "http.response.status_code": attempt.statusCode,
        "http.request.resend_count": turn.number - 1,
        // The host alone: path and query of a webhook may be its secret.
        "server.address": URL.parse(sub.url)?.hostname,
        "error.type": attempt.error ?? errorStatus(attempt)?.toString(),
        "relay.attempt_id": id,
      };
      const { startedAt } = attempt;
      const endedAt = startedAt + attempt.durationMs;
      const error = attempt.error ?? failedStatus(attempt);
      take({
        context,
        parentId: delivery.spanId,
        name: "attempt",
        kind: "client",
        startedAt,
        endedAt,
        attributes,
        error,
      });
      return sent;
    },

    attempted(sub, delivery, attempt, outcome) {
      if (outcome.kind === "retry") return;
      const publish = parents.get(attempt);
      if (publish === undefined) return;
      const { ordinal, cycle, eventId, status, reason, attempts } = delivery;
      take({
        context: deliveryContext(publish, ordinal, sub.id, cycle),
        parentId: publish.spanId,
        name: "delivery",
        kind: "producer",
        startedAt: cycle === 0 ? ordinalTime(ordinal) : (attempts[0] ?? attempt).startedAt,
        endedAt: clock.now(),
        attributes: {
          "messaging.system": "relay",
          "messaging.message.id": eventId,
          "relay.key_id": sub.keyId,
          "relay.subscription_id": sub.id,
          "relay.delivery_id": deliveryId(ordinal, sub.id),
          "relay.cycle": cycle,
          "relay.attempts": attempts.length,
          "relay.status": status,
        },
        error: status === "delivered" ? undefined : (reason ?? status),
      });
    },
  };
}

async function publishTraced(
  accept: Accept,
  request: AcceptRequest,
  sampling: Sampling,
  clock: Clock,
  take: Take,
): ReturnType<Accept> {
  const parent = request.traceparent === undefined ? undefined : parseTraceparent(request.traceparent);
  const context = childOf(parent, sampling);
  const [startedAt, began] = [clock.now(), clock.monotonic()];
  function end(more: OtlpSpan["attributes"], error?: string): void {
    if (!context.sampled) return;
    const endedAt = startedAt + clock.monotonic() - began;
    const attributes = {
      "messaging.system": "relay",
      "messaging.operation.type": "send",
      "relay.source": request.source,
      "relay.request_id": request.requestId,
      ...more,
    };
    take({ context, parentId: parent?.spanId, name: "publish", kind: "server", startedAt, endedAt, attributes, error });
  }
  try {
    const accepted = await accept({ ...request, traceparent: traceparent(context) });
    const one = accepted.length === 1 ? accepted[0] : undefined;
    end({
      "messaging.batch.message_count": accepted.length,
      "messaging.message.id": one?.id,
      "relay.event_type": one?.type,
      "relay.key_id": one?.keyId,
      "relay.duplicate": one?.duplicate,
    });
    return accepted;
  } catch (error) {
    const code = error instanceof Problem ? error.code : "fault";
    end({ "error.type": code }, code);
    throw error;
  }
}

const deliveryContext = (publish: SpanContext, ordinal: string, sub: string, cycle: number): SpanContext =>
  derivedFrom(publish, `${deliveryId(ordinal, sub)} ${cycle}`);

/** Returns the status where it says that the request has failed; a redirect is not followed. */
const errorStatus = ({ statusCode }: Attempt): number | undefined =>
  statusCode !== undefined && statusCode >= 300 ? statusCode : undefined;

const failedStatus = ({ statusCode }: Attempt): string | undefined =>
  statusCode !== undefined && statusCode >= 200 && statusCode < 300 ? undefined : `status ${statusCode}`;
