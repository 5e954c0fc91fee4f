/**
 * Reads the settings of traces from the options, and for what they leave out from the environment, under
 * OpenTelemetry's own names (https://opentelemetry.io/docs/specs/otel/protocol/exporter/).
 */
import { anything, must, optional, optionProblems, type Rule } from "../../../core/ports/options.ts";

export interface OtlpOptions {
  /** Where spans go, whole: `https://collector.internal:4318/v1/traces`. @default OTEL_EXPORTER_OTLP_ENDPOINT and `/v1/traces` */
  readonly url?: string;
  /** Sent with each export. @default OTEL_EXPORTER_OTLP_HEADERS */
  readonly headers?: Readonly<Record<string, string>>;
  /** Longest export, ms. @default OTEL_EXPORTER_OTLP_TIMEOUT, or 10_000 */
  readonly timeoutMs?: number;
  /** Most spans of one export. @default OTEL_BSP_MAX_EXPORT_BATCH_SIZE, or 512 */
  readonly batch?: number;
  /** Most spans that wait; more are dropped. @default OTEL_BSP_MAX_QUEUE_SIZE, or 2_048 */
  readonly queue?: number;
  /** How long the first span of a batch waits for others, ms. @default OTEL_BSP_SCHEDULE_DELAY, or 5_000 */
  readonly delayMs?: number;
  /** The part of the traces that begin here which is recorded, 0…1. @default OTEL_TRACES_SAMPLER, or 1 */
  readonly ratio?: number;
  /** True when a publisher's own decision (the sampled flag) goes before `ratio`. @default OTEL_TRACES_SAMPLER, or true */
  readonly parentBased?: boolean;
  /** Attributes of this process, `service.name` among them. @default OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME */
  readonly resource?: Readonly<Record<string, string>>;
  /** The environment that is read. @default the process's own */
  readonly env?: Environment;
}

export type TraceSettings = Required<Omit<OtlpOptions, "env">>;

export type Environment = Readonly<Record<string, string | undefined>>;

/** A setting that cannot be used; `path` is the option or the variable. */
interface SettingProblem {
  readonly path: string;
  readonly message: string;
}

class WrongSetting extends Error {
  readonly path: string;
  constructor(path: string, message: string) {
    super(message);
    this.path = path;
  }
}

/** Returns true when the environment names a collector and does not switch traces off. */
export const isNamed = (env: Environment): boolean =>
  !isOff(env) &&
  [given(env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), given(env, "OTEL_EXPORTER_OTLP_ENDPOINT")].some(Boolean);

const isOff = (env: Environment): boolean =>
  given(env, "OTEL_SDK_DISABLED")?.toLowerCase() === "true" || given(env, "OTEL_TRACES_EXPORTER") === "none";

/** The settings, `"off"` where the environment switches traces off, or the first problem. */
export function readSettings(options: OtlpOptions, env: Environment): TraceSettings | SettingProblem | "off" {
  if (isOff(env)) return "off";
  try {
    return { ...fromEnvironment(env, options), ...checked(options) };
  } catch (error) {
    if (!(error instanceof WrongSetting)) throw error;
    return { path: error.path, message: error.message };
  }
}

function fromEnvironment(env: Environment, options: OtlpOptions): TraceSettings {
  const exporter = given(env, "OTEL_TRACES_EXPORTER") ?? "otlp";
  if (exporter !== "otlp") throw wrong("OTEL_TRACES_EXPORTER", "must be otlp or none");
  const protocol = given(env, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") ?? given(env, "OTEL_EXPORTER_OTLP_PROTOCOL");
  if (protocol !== undefined && protocol !== "http/json") {
    throw wrong(
      "OTEL_EXPORTER_OTLP_PROTOCOL",
      "must be http/json, which collectors take on the same port as http/protobuf",
    );
  }
  const timeout = given(env, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT") === undefined ? "" : "TRACES_";
  const service = given(env, "OTEL_SERVICE_NAME");
  return {
    url: options.url ?? endpoint(env),
    headers: { ...pairs(env, "OTEL_EXPORTER_OTLP_HEADERS"), ...pairs(env, "OTEL_EXPORTER_OTLP_TRACES_HEADERS") },
    timeoutMs: whole(env, `OTEL_EXPORTER_OTLP_${timeout}TIMEOUT`, 10_000),
    batch: whole(env, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
    queue: whole(env, "OTEL_BSP_MAX_QUEUE_SIZE", 2_048),
    delayMs: whole(env, "OTEL_BSP_SCHEDULE_DELAY", 5_000),
    ...sampler(env),
    resource: {
      ...pairs(env, "OTEL_RESOURCE_ATTRIBUTES"),
      ...(service !== undefined && { "service.name": service }),
    },
  };
}

function endpoint(env: Environment): string {
  const own = given(env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  if (own !== undefined) return url("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", own);
  const base = given(env, "OTEL_EXPORTER_OTLP_ENDPOINT");
  if (base === undefined) throw wrong("url", "must be given, here or as OTEL_EXPORTER_OTLP_ENDPOINT");
  return `${url("OTEL_EXPORTER_OTLP_ENDPOINT", base).replace(/\/+$/, "")}/v1/traces`;
}

const COUNT = must(
  "must be a whole number above 0",
  (value) => Number.isInteger(value) && (value as number) > 0 && (value as number) < 1e9,
);
const RATIO = must("must be a number from 0 to 1", (ratio) => (ratio as number) >= 0 && (ratio as number) <= 1);
const ADDRESS = must("must be an http:// or https:// URL without credentials", (text) => {
  const url = typeof text === "string" ? URL.parse(text) : null;
  return url !== null && ["http:", "https:"].includes(url.protocol) && url.username + url.password === "";
});

/** The options that were given; each is judged as its variable is. */
function checked(options: OtlpOptions): Partial<TraceSettings> {
  const [first] = optionProblems<OtlpOptions>(options, {
    ...{ url: optional(ADDRESS), timeoutMs: optional(COUNT), batch: optional(COUNT), queue: optional(COUNT) },
    ...{ delayMs: optional(COUNT), ratio: optional(RATIO), headers: anything },
    ...{ parentBased: anything, resource: anything, env: anything },
  });
  if (first !== undefined) throw wrong(first.path, first.message);
  const { env: _, ...given } = options;
  if (given.url !== undefined) given.url = new URL(given.url).href;
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
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
  return { parentBased, ratio: right(RATIO, ratio, "OTEL_TRACES_SAMPLER_ARG") };
}

/** An empty variable counts as one that is not set, as the specification has it. */
const given = (env: Environment, name: string): string | undefined => env[name]?.trim() || undefined;

const wrong = (path: string, message: string): WrongSetting => new WrongSetting(path, message);

/** Returns the value of a variable. @throws WrongSetting where it breaks the rule */
function right<T>(rule: Rule, value: T, name: string): T {
  for (const { path, message } of rule(value, name)) throw wrong(path, message);
  return value;
}

const url = (name: string, text: string): string => new URL(right(ADDRESS, text, name)).href;

function whole(env: Environment, name: string, otherwise: number): number {
  const text = given(env, name);
  return text === undefined ? otherwise : right(COUNT, /^\d+$/.test(text) ? Number(text) : Number.NaN, name);
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
