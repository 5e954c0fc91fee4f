/** Traces, when the environment names where they go. Otherwise nothing of it is loaded, and a `traceparent` is passed on as it came. */
import { hostname } from "node:os";
import { VERSION } from "../../model/version.ts";
import type { ContextParts } from "../plugin-context.ts";
import type { Tracing } from "../telemetry/spans.ts";
import { readTraceSettings, type TraceSettings } from "../telemetry/settings.ts";

export { readTraceSettings, type TraceSettings };

export interface Telemetry {
  /** `undefined`: no traces. */
  readonly tracing: Tracing | undefined;
  /** Sends what is left, for at most `graceMs`. */
  close(graceMs: number): Promise<void>;
}

export const noTelemetry: Telemetry = { tracing: undefined, close: () => Promise.resolve() };

export async function openTelemetry(
  settings: TraceSettings | undefined,
  around: Pick<ContextParts, "clock" | "log" | "metrics" | "fetch">,
): Promise<Telemetry> {
  if (settings === undefined) return noTelemetry;
  const [{ createExporter }, { createTracing }] = await Promise.all([
    import("../telemetry/exporter.ts"),
    import("../telemetry/spans.ts"),
  ]);
  const resource = {
    "service.name": "relaybox",
    "service.version": VERSION,
    "service.instance.id": `${hostname()}-${process.pid}`,
    ...settings.resource,
  };
  const exporter = createExporter(settings, resource, around);
  return {
    tracing: createTracing({ sampling: settings, clock: around.clock, take: exporter.take }),
    close: exporter.close,
  };
}
