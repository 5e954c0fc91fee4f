/** Exports spans in batches through the guard, and drops those that are refused. It never delays an event. */
import { within } from "../../../core/lib/within.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Log, Metrics, PluginContext } from "../../../core/ports/plugin.ts";
import { VERSION } from "../../../core/model/version.ts";
import { encodeSpans, type Attributes, type OtlpSpan } from "./encode.ts";
import type { TraceSettings } from "./settings.ts";

export interface Exporter {
  /** Takes a span; returns at once. Beyond `queue` spans it is dropped and counted. */
  take(span: OtlpSpan): void;
  /** Sends what is left, for at most `graceMs`. May be called twice. */
  close(graceMs: number): Promise<void>;
}

/** Answers after which the same batch is sent again (OTLP calls them retryable), and how often. */
const AGAIN: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const TRIES = 3;
const MOST_WAIT_MS = 30_000;

export function createExporter(
  { url, headers, timeoutMs, batch, queue, delayMs }: TraceSettings,
  resource: Attributes,
  around: {
    readonly clock: Clock;
    readonly log: Log;
    readonly metrics: Metrics;
    readonly fetch: PluginContext["fetch"];
  },
): Exporter {
  const { clock, log, metrics, fetch } = around;
  const closing = new AbortController();
  /** Aborts the request that is under way when the time to close is over. */
  const left = new AbortController();
  let spans: OtlpSpan[] = [];
  let full = Promise.withResolvers<void>();
  let sending: Promise<void> | undefined;
  let failing = false;

  /** One loop while there is something to send: it waits for a batch to fill or for its time. */
  async function send(): Promise<void> {
    while (spans.length > 0) {
      if (spans.length < batch && !closing.signal.aborted) await gather();
      const part = spans.slice(0, batch);
      spans = spans.slice(part.length);
      const sent = await post(part);
      metrics.count("spans", { result: sent ? "exported" : "dropped" }, part.length);
    }
    sending = undefined;
  }

  async function gather(): Promise<void> {
    full = Promise.withResolvers();
    await within(clock, delayMs, full.promise, closing.signal);
  }

  /** @returns whether it was accepted. Never rejects. */
  async function post(part: readonly OtlpSpan[]): Promise<boolean> {
    const body = encodeSpans(part, resource, VERSION);
    for (let tries = 1; ; tries++) {
      const { problem, waitMs } = await once(body, tries);
      if (problem === undefined) {
        if (failing) log.info("traces are taken again", { target: url });
        failing = false;
        return true;
      }
      if (waitMs === undefined || tries === TRIES || closing.signal.aborted) {
        // Logged once, not with every batch, which would fill the log.
        if (!failing)
          log.warn("traces are not taken; an internal address must stand in guard.allow", {
            target: url,
            reason: problem,
          });
        failing = true;
        return false;
      }
      await clock.sleep(clock.now() + waitMs, closing.signal).catch(() => undefined);
    }
  }

  async function once(body: string, tries: number): Promise<{ readonly problem?: string; readonly waitMs?: number }> {
    const backoffMs = 500 * 2 ** tries;
    try {
      const sent = { ...headers, "content-type": "application/json" };
      const { status, headers: answer } = await fetch(url, {
        method: "POST",
        headers: sent,
        body,
        timeoutMs,
        signal: left.signal,
      });
      if (status >= 200 && status < 300) return {};
      const asked = Number(answer["retry-after"]) * 1_000;
      const waitMs = Math.min(asked > 0 ? asked : backoffMs, MOST_WAIT_MS);
      return { problem: `status ${status}`, ...(AGAIN.has(status) && { waitMs }) };
    } catch (error) {
      const { cause } = error as { readonly cause?: { readonly cause?: Error } & Error };
      return { problem: (cause?.cause ?? cause ?? (error as Error)).message, waitMs: backoffMs };
    }
  }

  return {
    take(span) {
      if (spans.length >= queue || closing.signal.aborted) return metrics.count("spans", { result: "dropped" });
      spans.push(span);
      if (spans.length >= batch) full.resolve();
      sending ??= send();
    },
    async close(graceMs) {
      closing.abort(new Error("closing"));
      await within(clock, graceMs, sending);
      left.abort();
    },
  };
}
