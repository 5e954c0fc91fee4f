/** Sends the spans of events, deliveries and attempts to an OpenTelemetry collector, over OTLP/HTTP in JSON. */
import { hostname } from "node:os";
import { VERSION } from "../../core/model/version.ts";
import type { Observer } from "../../core/ports/observer.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { own } from "../../core/ports/own-plugins.ts";
import { isNamed, readSettings, type Environment, type OtlpOptions } from "./otlp/settings.ts";

export type { OtlpOptions } from "./otlp/settings.ts";

/** Time for spans that have not left yet when everything else has stopped, ms. */
const FLUSH_MS = 500;

/**
 * Makes the observer. What the options leave out is read from OpenTelemetry's environment variables; `OTEL_SDK_DISABLED=true` and
 * `OTEL_TRACES_EXPORTER=none` switch it off whatever the options say.
 */
export function otlp(options: OtlpOptions = {}): Plugin<"observer", Observer> {
  const settings = readSettings(options ?? {}, options?.env ?? process.env);
  return own({
    kind: "observer",
    name: "otlp",
    ...(typeof settings === "object" && "message" in settings && { problems: [settings] }),
    async setup(ctx) {
      if (settings === "off" || "message" in settings) return {};
      const { Exporter } = await import("./otlp/exporter.ts");
      const { createTracing } = await import("./otlp/spans.ts");
      const resource = {
        "service.name": "relaybox",
        "service.version": VERSION,
        "service.instance.id": `${hostname()}-${process.pid}`,
        ...settings.resource,
      };
      const exporter = new Exporter(ctx, { ...settings, resource });
      const tracing = createTracing(settings, ctx.clock, (span) => exporter.take(span));
      return { ...tracing, dispose: () => exporter.close(FLUSH_MS) };
    },
  });
}

/** The observer that the environment asks for; `undefined` where it names no collector, or switches traces off. */
export const otlpOfEnvironment = (env: Environment): Plugin<"observer", Observer> | undefined =>
  isNamed(env) ? otlp({ env }) : undefined;
