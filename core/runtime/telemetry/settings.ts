/** What the environment says of traces, under OpenTelemetry's own names (https://opentelemetry.io/docs/specs/otel/protocol/exporter/). */
import { StartError } from "../../model/errors.ts";

export interface TraceSettings {
  /** Where spans go, whole. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Most spans of one request, most that wait, and how long the first of them waits, ms. */
  readonly batch: number;
  readonly queue: number;
  readonly delayMs: number;
  /** The part of the traces that begin here which is recorded, 0…1. */
  readonly ratio: number;
  /** Whether a publisher's own decision (the sampled flag) goes before ours. */
  readonly parentBased: boolean;
  /** `service.name` among them. */
  readonly resource: Readonly<Record<string, string>>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * `undefined` where no endpoint is named, or traces are switched off: then nothing of this is loaded.
 * @throws StartError 78 naming the variable that cannot be used
 */
export function readTraceSettings(env: Environment): TraceSettings | undefined {
  const own = given(env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  const base = given(env, "OTEL_EXPORTER_OTLP_ENDPOINT");
  if (own === undefined && base === undefined) return undefined;
  if (given(env, "OTEL_SDK_DISABLED")?.toLowerCase() === "true") return undefined;
  const exporter = given(env, "OTEL_TRACES_EXPORTER") ?? "otlp";
  if (exporter === "none") return undefined;
  if (exporter !== "otlp") throw wrong("OTEL_TRACES_EXPORTER", "must be otlp or none");
  const protocol = given(env, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") ?? given(env, "OTEL_EXPORTER_OTLP_PROTOCOL");
  if (protocol !== undefined && protocol !== "http/json") {
    throw wrong(
      "OTEL_EXPORTER_OTLP_PROTOCOL",
      "must be http/json, which collectors take on the same port as http/protobuf",
    );
  }
  return {
    url:
      own === undefined
        ? `${url("OTEL_EXPORTER_OTLP_ENDPOINT", base as string).replace(/\/+$/, "")}/v1/traces`
        : url("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", own),
    headers: { ...pairs(env, "OTEL_EXPORTER_OTLP_HEADERS"), ...pairs(env, "OTEL_EXPORTER_OTLP_TRACES_HEADERS") },
    timeoutMs:
      given(env, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT") === undefined
        ? whole(env, "OTEL_EXPORTER_OTLP_TIMEOUT", 10_000)
        : whole(env, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", 10_000),
    batch: whole(env, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
    queue: whole(env, "OTEL_BSP_MAX_QUEUE_SIZE", 2_048),
    delayMs: whole(env, "OTEL_BSP_SCHEDULE_DELAY", 5_000),
    ...sampler(env),
    resource: {
      ...pairs(env, "OTEL_RESOURCE_ATTRIBUTES"),
      ...(given(env, "OTEL_SERVICE_NAME") === undefined
        ? {}
        : { "service.name": given(env, "OTEL_SERVICE_NAME") as string }),
    },
  };
}

function sampler(env: Environment): Pick<TraceSettings, "ratio" | "parentBased"> {
  const name = given(env, "OTEL_TRACES_SAMPLER") ?? "parentbased_always_on";
  const found = /^(parentbased_)?(always_on|always_off|traceidratio)$/.exec(name);
  if (found === null) {
    throw wrong(
      "OTEL_TRACES_SAMPLER",
      "must be always_on, always_off or traceidratio, or one of them behind parentbased_",
    );
  }
  const parentBased = found[1] !== undefined;
  if (found[2] !== "traceidratio") return { parentBased, ratio: found[2] === "always_on" ? 1 : 0 };
  const ratio = Number(given(env, "OTEL_TRACES_SAMPLER_ARG") ?? "1");
  if (!(ratio >= 0 && ratio <= 1)) throw wrong("OTEL_TRACES_SAMPLER_ARG", "must be a number from 0 to 1");
  return { parentBased, ratio };
}

/** An empty variable counts as one that is not set, as the specification has it. */
const given = (env: Environment, name: string): string | undefined => env[name]?.trim() || undefined;

const wrong = (name: string, message: string): StartError => new StartError(78, `${name} ${message}`);

function url(name: string, text: string): string {
  if (URL.canParse(text)) {
    const { protocol, username, password, href } = new URL(text);
    if (["http:", "https:"].includes(protocol) && username + password === "") return href;
  }
  throw wrong(name, "must be an http:// or https:// URL without credentials");
}

function whole(env: Environment, name: string, otherwise: number): number {
  const text = given(env, name);
  if (text === undefined) return otherwise;
  if (/^\d{1,9}$/.test(text) && Number(text) > 0) return Number(text);
  throw wrong(name, "must be a whole number above 0");
}

/** `key=value,key=value`, values percent-encoded. */
function pairs(env: Environment, name: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const part of (given(env, name) ?? "").split(",")) {
    if (part.trim() === "") continue;
    const [, key, value] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(part) ?? [];
    if (key === undefined || value === undefined) throw wrong(name, "must be key=value, separated by commas");
    found[key] = decoded(name, value);
  }
  return found;
}

function decoded(name: string, value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    throw wrong(name, "has a value that is not percent-encoded as it should be");
  }
}
