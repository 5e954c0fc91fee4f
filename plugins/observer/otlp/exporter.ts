/**
 * Exports spans in batches through the guard, and drops those that are refused. It never delays an event. They go as OTLP over
 * HTTP in JSON (https://opentelemetry.io/docs/specs/otlp/#otlphttp), of which traces are all we need: OpenTelemetry's own
 * packages are 20 MB, load in 90 ms, and open their sockets past the guard.
 */
import { within } from "../../../core/lib/within.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { VERSION } from "../../../core/model/version.ts";
import type { TraceSettings } from "./settings.ts";
import type { SpanContext } from "./trace-context.ts";

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

export interface OtlpSpan {
  readonly context: SpanContext;
  /** Of the span above; absent for the first of a trace. */
  readonly parentId?: string;
  readonly name: string;
  readonly kind: "server" | "client" | "producer";
  /** Epoch ms, fractions allowed. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attributes: Attributes;
  /** Why it failed; absent when it did not. */
  readonly error?: string;
}

/** Answers after which the same batch is sent again (OTLP calls them retryable), and how often. */
const AGAIN: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const TRIES = 3;
const MOST_WAIT_MS = 30_000;

export class Exporter {
  readonly #ctx: Pick<PluginContext, "clock" | "log" | "metrics" | "fetch">;
  readonly #settings: TraceSettings;
  readonly #closing = new AbortController();
  /** Aborts the request that is under way when the time to close is over. */
  readonly #left = new AbortController();
  #spans: OtlpSpan[] = [];
  #full = Promise.withResolvers<void>();
  #sending: Promise<void> | undefined;
  #isFailing = false;

  constructor(ctx: Pick<PluginContext, "clock" | "log" | "metrics" | "fetch">, settings: TraceSettings) {
    this.#ctx = ctx;
    this.#settings = settings;
  }

  /** Takes a span; returns at once. Beyond `queue` spans it is dropped and counted. */
  take(span: OtlpSpan): void {
    const { queue, batch } = this.#settings;
    if (this.#spans.length >= queue || this.#closing.signal.aborted)
      return this.#ctx.metrics.count("spans", { result: "dropped" });
    this.#spans.push(span);
    if (this.#spans.length >= batch) this.#full.resolve();
    this.#sending ??= this.#send();
  }

  /** Sends the spans that are left, for at most `graceMs`. May be called twice. */
  async close(graceMs: number): Promise<void> {
    this.#closing.abort(new Error("closing"));
    await within(this.#ctx.clock, graceMs, this.#sending);
    this.#left.abort();
  }

  /** Sends as long as there is something: each time it waits for a batch to fill, or for its time. */
  async #send(): Promise<void> {
    const { batch, delayMs } = this.#settings;
    while (this.#spans.length > 0) {
      if (this.#spans.length < batch && !this.#closing.signal.aborted) {
        this.#full = Promise.withResolvers();
        await within(this.#ctx.clock, delayMs, this.#full.promise, this.#closing.signal);
      }
      const part = this.#spans.splice(0, batch);
      const result = (await this.#post(part)) ? "exported" : "dropped";
      this.#ctx.metrics.count("spans", { result }, part.length);
    }
    this.#sending = undefined;
  }

  /** Resolves to whether the spans were accepted. Never rejects. */
  async #post(part: readonly OtlpSpan[]): Promise<boolean> {
    const { clock } = this.#ctx;
    const body = encodeSpans(part, this.#settings.resource, VERSION);
    for (let tries = 1; ; tries++) {
      const { problem, waitMs } = await this.#try(body, tries);
      const isOver = waitMs === undefined || tries === TRIES || this.#closing.signal.aborted;
      if (problem === undefined || isOver) {
        this.#note(problem);
        return problem === undefined;
      }
      await clock.sleep(clock.now() + waitMs, this.#closing.signal).catch(() => undefined);
    }
  }

  async #try(body: string, tries: number): Promise<{ readonly problem?: string; readonly waitMs?: number }> {
    const { url, headers, timeoutMs } = this.#settings;
    const backoffMs = 500 * 2 ** tries;
    try {
      const sent = { ...headers, "content-type": "application/json" };
      const request = { method: "POST", headers: sent, body, timeoutMs, signal: this.#left.signal };
      const { status, headers: answer } = await this.#ctx.fetch(url, request);
      if (status >= 200 && status < 300) return {};
      const asked = Number(answer["retry-after"]) * 1_000;
      const waitMs = Math.min(asked > 0 ? asked : backoffMs, MOST_WAIT_MS);
      return { problem: `status ${status}`, ...(AGAIN.has(status) && { waitMs }) };
    } catch (error) {
      const { cause } = error as { readonly cause?: { readonly cause?: Error } & Error };
      return { problem: (cause?.cause ?? cause ?? (error as Error)).message, waitMs: backoffMs };
    }
  }

  /** Logs a change, and not every batch, which would fill the log. */
  #note(reason: string | undefined): void {
    const isFailing = reason !== undefined;
    const [{ log }, { url: target }] = [this.#ctx, this.#settings];
    if (isFailing && !this.#isFailing)
      log.warn("traces are not taken; an internal address must stand in guard.allow", { target, reason });
    if (!isFailing && this.#isFailing) log.info("traces are taken again", { target });
    this.#isFailing = isFailing;
  }
}

const KINDS = { server: 2, client: 3, producer: 4 } as const;
const FAILED = 2;

/** The body of one export. */
function encodeSpans(spans: readonly OtlpSpan[], resource: Attributes, version: string): string {
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
