/**
 * Trace context (https://www.w3.org/TR/trace-context/): the trace of a span, and its parent.
 *
 * Span ids of deliveries and attempts are derived from what they stand for, like all ids here: a span that is made
 * again after a crash, or on another node, is the same span under the same parent, and nothing about it has to be
 * stored.
 */
import { hash, randomBytes } from "node:crypto";

export interface SpanContext {
  /** 32 hex digits. */
  readonly traceId: string;
  /** 16 hex digits. */
  readonly spanId: string;
  readonly sampled: boolean;
}

/** Reads the context of a `traceparent` that was checked at its arrival. */
export function parseTraceparent(text: string): SpanContext {
  return {
    traceId: text.slice(3, 35),
    spanId: text.slice(36, 52),
    sampled: (Number.parseInt(text.slice(53, 55), 16) & 1) === 1,
  };
}

export const traceparent = ({ traceId, spanId, sampled }: SpanContext): string =>
  `00-${traceId}-${spanId}-0${sampled ? 1 : 0}`;

export interface Sampling {
  /** 0…1 */
  readonly ratio: number;
  readonly parentBased: boolean;
}

/** Returns a new span under `parent`, or the first one of a new trace. */
export function childOf(parent: SpanContext | undefined, { ratio, parentBased }: Sampling): SpanContext {
  const traceId = parent?.traceId ?? randomBytes(16).toString("hex");
  const sampled = parent !== undefined && parentBased ? parent.sampled : chosen(traceId, ratio);
  return { traceId, spanId: randomBytes(8).toString("hex"), sampled };
}

/** By the trace id alone, so that every relay in a trace decides alike. */
const chosen = (traceId: string, ratio: number): boolean => Number.parseInt(traceId.slice(18), 16) < ratio * 2 ** 56;

/** Returns the span under `parent` for a thing with this id. */
export const derivedFrom = (parent: SpanContext, id: string): SpanContext => ({
  ...parent,
  spanId: hash("sha256", `${parent.traceId} ${id}`, "hex").slice(0, 16),
});
