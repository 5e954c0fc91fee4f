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
import {
  childOf,
  derivedFrom,
  parseTraceparent,
  traceparent,
  type Sampling,
  type SpanContext,
} from "./trace-context.ts";
import type { OtlpSpan } from "./encode.ts";

export type Tracing = Required<Pick<Observer, "wrapAccept" | "wrapSend" | "attempted">>;

export function createTracing(deps: {
  readonly sampling: Sampling;
  readonly clock: Clock;
  readonly take: (span: OtlpSpan) => void;
}): Tracing {
  const { sampling, clock, take } = deps;
  /** The publish span of each attempt that was sent, until `attempted` has read it. */
  const parents = new WeakMap<Attempt, SpanContext>();

  const deliveryContext = (publish: SpanContext, ordinal: string, sub: string, cycle: number): SpanContext =>
    derivedFrom(publish, `${deliveryId(ordinal, sub)} ${cycle}`);

  return {
    wrapAccept: (accept) => async (request) => {
      const parent = request.traceparent === undefined ? undefined : parseTraceparent(request.traceparent);
      const context = childOf(parent, sampling);
      const startedAt = clock.now();
      const began = clock.monotonic();
      const record = (attributes: OtlpSpan["attributes"], error?: string): void => {
        if (!context.sampled) return;
        const endedAt = startedAt + clock.monotonic() - began;
        const more = {
          "messaging.system": "relay",
          "messaging.operation.type": "send",
          "relay.source": request.source,
          "relay.request_id": request.requestId,
        };
        take({
          context,
          parentId: parent?.spanId,
          name: "publish",
          kind: "server",
          startedAt,
          endedAt,
          attributes: { ...more, ...attributes },
          error,
        });
      };
      try {
        const accepted = await accept({ ...request, traceparent: traceparent(context) });
        const [first] = accepted;
        const one = accepted.length === 1 ? first : undefined;
        record({
          "messaging.batch.message_count": accepted.length,
          "messaging.message.id": one?.id,
          "relay.event_type": one?.type,
          "relay.key_id": one?.keyId,
          "relay.duplicate": one?.duplicate,
        });
        return accepted;
      } catch (error) {
        record(
          { "error.type": error instanceof Problem ? error.code : "fault" },
          error instanceof Problem ? error.code : "fault",
        );
        throw error;
      }
    },

    wrapSend: (send) => async (sub, loaded, turn, signal) => {
      const { traceparent: text, ordinal } = loaded.event;
      if (text === undefined) return await send(sub, loaded, turn, signal);
      const publish = parseTraceparent(text);
      const delivery = deliveryContext(publish, ordinal, sub.id, turn.cycle);
      const context = derivedFrom(delivery, attemptId(ordinal, sub.id, turn.cycle, turn.number));
      const event = { ...loaded.event, traceparent: traceparent(context) };
      const sent = await send(sub, { ...loaded, event }, turn, signal);
      if (!context.sampled) return sent;
      const { attempt } = sent;
      parents.set(attempt, publish);
      take({
        context,
        parentId: delivery.spanId,
        name: "attempt",
        kind: "client",
        startedAt: attempt.startedAt,
        endedAt: attempt.startedAt + attempt.durationMs,
        attributes: {
          "http.request.method": "POST",
          "http.response.status_code": attempt.statusCode,
          "http.request.resend_count": turn.number - 1,
          // The host alone: path and query of a webhook may be its secret.
          "server.address": hostOf(sub.url),
          "error.type":
            attempt.error ??
            (attempt.statusCode !== undefined && attempt.statusCode >= 300 ? String(attempt.statusCode) : undefined),
          "relay.attempt_id": attemptId(ordinal, sub.id, turn.cycle, turn.number),
        },
        error: failureOf(attempt),
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

const hostOf = (url: string): string | undefined => (URL.canParse(url) ? new URL(url).hostname : undefined);

function failureOf({ statusCode, error }: Attempt): string | undefined {
  if (error !== undefined) return error;
  return statusCode !== undefined && statusCode >= 200 && statusCode < 300 ? undefined : `status ${statusCode}`;
}
