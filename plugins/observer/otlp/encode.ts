/**
 * OTLP over HTTP in JSON (https://opentelemetry.io/docs/specs/otlp/#otlphttp), of which traces are all we need.
 *
 * OpenTelemetry's own packages would do it too, but they are 20 MB, load in 90 ms, and open their sockets past the guard.
 */
import type { SpanContext } from "./trace-context.ts";

export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

export interface OtlpSpan {
  readonly context: SpanContext;
  /** Of the span above; absent for the first of a trace. */
  readonly parentId?: string;
  readonly name: string;
  readonly kind: "internal" | "server" | "client" | "producer" | "consumer";
  /** Epoch ms, fractions allowed. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attributes: Attributes;
  /** Why it failed; absent when it did not. */
  readonly error?: string;
}

const KINDS = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 } as const;
const FAILED = 2;

/** The body of one export. */
export function encodeSpans(spans: readonly OtlpSpan[], resource: Attributes, version: string): string {
  return JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: attributes(resource) },
        scopeSpans: [{ scope: { name: "relaybox", version }, spans: spans.map(encode) }],
      },
    ],
  });
}

const encode = ({ context, parentId, name, kind, startedAt, endedAt, attributes: own, error }: OtlpSpan): object => ({
  traceId: context.traceId,
  spanId: context.spanId,
  parentSpanId: parentId,
  flags: context.sampled ? 1 : 0,
  name,
  kind: KINDS[kind],
  startTimeUnixNano: nanoseconds(startedAt),
  endTimeUnixNano: nanoseconds(Math.max(startedAt, endedAt)),
  attributes: attributes(own),
  status: error === undefined ? {} : { code: FAILED, message: error },
});

/** 64-bit integers are text in OTLP's JSON. A millisecond time has room for microseconds and no more. */
const nanoseconds = (ms: number): string => `${Math.round(ms * 1_000)}000`;

function attributes(all: Attributes): object[] {
  const made: object[] = [];
  for (const [key, value] of Object.entries(all)) if (value !== undefined) made.push({ key, value: valueOf(value) });
  return made;
}

function valueOf(value: string | number | boolean): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
