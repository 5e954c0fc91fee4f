/** The shape of the whole config, as one zod schema. */
import { z } from "zod";
import { passesOn } from "../core/api/gateway/headers.ts";
import { nat64Problem } from "../core/guard/nat64.ts";
import { isAsync, NOT_ASYNC } from "../core/lib/at-once.ts";
import { routeShape } from "../core/limits/route-limits.ts";
import { HEADER_NAME, MAX_HEADER_NAME, mayStandBeside, REPEATABLE } from "../core/model/header-names.ts";
import { LEAST_DELAY_MS, LONGEST_SCHEDULE_MS, MOST_DELAYS, scheduleProblem } from "../core/model/subscription.ts";
import { TRANSFORM_NAME, type Transform } from "../core/model/transform.ts";
import type { AuthPlugin, ObserverPlugin, SourcePlugin, StoragePlugin, TransportPlugin } from "../core/ports/plan.ts";
import {
  choiceValue,
  flag,
  host,
  isKeyed,
  isNetwork,
  isUpstream,
  list,
  LOG_LEVELS,
  ms,
  number,
  options,
  orFalse,
  pass,
  pem,
  plugin,
  refuse,
  section,
  textValue,
  tokenValue,
  whole,
  YEARS_MS,
} from "./check-plan.ts";
import { ABUSE, DELIVERY, HEALTH, RETRY, STEP_UP } from "./defaults.ts";
import { events } from "./event-types.ts";
import { notify } from "./notify.ts";
import { didYouMean } from "./problems.ts";
import { job } from "./schema-jobs.ts";
import { portal } from "./schema-portal.ts";

/** Needed by the checks from outside the config. */
interface ConfigSurroundings {
  readonly configDir: string;
  /** Endpoints that a limits row may name. */
  readonly endpoints: readonly string[];
  /** Says what is wrong with an entry of `guard.allow`, or nothing. */
  allowProblem(entry: string): string | undefined;
  cronValid(expression: string): boolean;
}

/** Refuses a second source of the same name where its routes would have the same paths, or its events the same ids. */
function eachOnce(sources: readonly SourcePlugin[], ctx: z.core.$RefinementCtx): void {
  for (const [i, { name, once, ownName }] of sources.entries()) {
    const first = sources.findIndex((other) => other.name === name);
    if (first === i) continue;
    if (ownName === true)
      refuse(ctx, `${name} is the name of sources[${first}] too: give this one a name of its own`, i, "name");
    if (once === true) refuse(ctx, `${name}() may stand once only: give the first one all it needs`, i);
  }
}

/** Refuses a second connection of the same kind and name (`nats:bus`): a URL could mean either. */
function eachNamed(transports: readonly TransportPlugin[], ctx: z.core.$RefinementCtx): void {
  for (const [i, { name }] of transports.entries()) {
    const [kind, own] = name.split(":");
    if (own === undefined || transports.findIndex((other) => other.name === name) === i) continue;
    const message = `is the name of an earlier connection: another ${kind} connection needs another name`;
    refuse(ctx, message, i, "name");
  }
}

/** Refuses what is no function, or has a name that no subscription could give. */
function eachTransform(transforms: unknown, ctx: z.core.$RefinementCtx): void {
  if (!isKeyed(transforms)) return refuse(ctx, "must be an object of functions: { name: (event) => … }");
  for (const [name, transform] of Object.entries(transforms)) {
    if (!TRANSFORM_NAME.test(name))
      refuse(ctx, "must be named by a letter, then letters, digits, _ and -, at most 64", name);
    else if (typeof transform !== "function") refuse(ctx, "must be a function: (event) => …", name);
    else if (isAsync(transform)) refuse(ctx, NOT_ASYNC, name);
  }
}

const server = (dir: string) =>
  options({
    host,
    port: whole(0, 65_535),
    trustedProxies: list(z.custom<string>(isNetwork, "must be an address or a CIDR, such as 10.0.0.0/8")),
    shutdownMs: ms(0, 3_600_000),
    maxConnections: whole(1, 1_000_000),
    readyNeeds: list(textValue),
    tls: section({
      cert: pem(dir, /-----BEGIN CERTIFICATE-----/, "a certificate"),
      key: pem(dir, /-----BEGIN [A-Z ]*PRIVATE KEY-----/, "a private key"),
    }),
  });

const wait = ms(10, 3_600_000);
const retry = options({
  attempts: whole(1, 5),
  firstDelayMs: wait,
  factor: number(1, 10),
  maxDelayMs: wait,
  delaysMs: list(ms(LEAST_DELAY_MS, LONGEST_SCHEDULE_MS)).refine(
    (value) => value.length > 0 && value.length <= MOST_DELAYS,
    `must have 1 to ${MOST_DELAYS} waits`,
  ),
})
  .superRefine((value, ctx) => {
    const message = scheduleProblem(value);
    if (message !== undefined) refuse(ctx, message, "delaysMs");
  })
  .refine((value) => (value.firstDelayMs ?? RETRY.firstDelayMs) <= (value.maxDelayMs ?? RETRY.maxDelayMs), {
    path: ["maxDelayMs"],
    message: "must not be less than firstDelayMs",
  });

const delivery = options({
  timeoutMs: ms(10, 30_000),
  concurrency: whole(1, 100_000),
  perSubscription: whole(1, 100_000),
  holdMs: ms(0, 3_600_000),
  receiverControl: flag,
}).refine((value) => (value.perSubscription ?? 0) <= (value.concurrency ?? DELIVERY.concurrency), {
  path: ["perSubscription"],
  message: "must not be more than concurrency",
});

const guard = ({ configDir, allowProblem }: ConfigSurroundings) =>
  options({
    allow: list(
      z
        .custom<string>((value) => typeof value === "string", "must be text, such as 10.2.0.0/16:8443")
        .superRefine((entry, ctx) => {
          const message = allowProblem(entry);
          if (message !== undefined) refuse(ctx, message);
        }),
    ),
    nat64: list(
      textValue.superRefine((prefix, ctx) => {
        const message = nat64Problem(prefix);
        if (message !== undefined) refuse(ctx, message);
      }),
    ),
    ports: list(whole(1, 65_535)).refine((value) => value.length > 0, "must name at least one port, such as 443"),
    ca: pem(configDir, /-----BEGIN CERTIFICATE-----/, "certificates"),
  });

const limitRow = orFalse(section({ perMinute: whole(1, 1_000_000_000), per5s: whole(1, 1_000_000_000) }));
const limitsCheck = section({ token: tokenValue });
const allOff = z.literal(false, { error: "can only be false: all rows off" });

/** @param endpoints endpoints that a row may name; the names of parameters do not matter */
function limits(endpoints: readonly string[]): z.ZodType<Record<string, unknown>> {
  const shapes = new Set(endpoints.map(routeShape));
  return z.record(z.string(), z.unknown(), { error: "must be an object: { … }" }).superRefine((rows, ctx) => {
    const named = new Map<string, string>();
    for (const [name, value] of Object.entries(rows)) {
      if (value === undefined) continue;
      const shape = routeShape(name);
      const other = named.get(shape);
      named.set(shape, name);
      if (other !== undefined) {
        refuse(ctx, `is the same endpoint as ${JSON.stringify(other)}`, name);
        continue;
      }
      if (name !== "check" && name !== "*" && !shapes.has(shape)) {
        const message = `names no endpoint${didYouMean(name, endpoints)}; write it as "GET /path/{param}"`;
        refuse(ctx, message, name);
        continue;
      }
      const schema: z.ZodType = name === "check" ? limitsCheck : name === "*" ? allOff : limitRow;
      const result = schema.safeParse(value);
      if (!result.success) pass(result.error, ctx, [name]);
    }
  });
}

const abuse = options({
  factor: number(1, 1_000),
  windowMs: ms(1_000, 3_600_000),
  failures: whole(1, 1_000_000),
  failuresWindowMs: ms(1_000, 86_400_000),
  suspendMs: ms(1_000, 86_400_000),
  maxSuspendMs: ms(1_000, 30 * 86_400_000),
  forgetMs: ms(1_000, 366 * 86_400_000),
}).refine((value) => (value.suspendMs ?? ABUSE.suspendMs) <= (value.maxSuspendMs ?? ABUSE.maxSuspendMs), {
  path: ["maxSuspendMs"],
  message: "must not be less than suspendMs",
});

const stepUp = options({
  acr: list(textValue),
  amr: list(textValue),
  maxAgeMs: ms(1_000, 86_400_000),
}).refine((value) => (value.acr ?? STEP_UP.acr).length + (value.amr ?? STEP_UP.amr).length > 0, {
  path: ["amr"],
  message: "must name at least one where acr names none, or no second factor ever counts",
});

const health = options({
  breakerAfter: whole(1, 1_000_000),
  breakerPauseMs: ms(1, 86_400_000),
  breakerMaxPauseMs: ms(1, 86_400_000),
  disableAfterMs: ms(1_000, YEARS_MS),
}).refine(
  (value) => (value.breakerPauseMs ?? HEALTH.breakerPauseMs) <= (value.breakerMaxPauseMs ?? HEALTH.breakerMaxPauseMs),
  { path: ["breakerMaxPauseMs"], message: "must not be less than breakerPauseMs" },
);

/** Headers of a delivery under names of one's own. */
const MOST_HEADERS = 16;

const repeatedHeaders = z
  .record(z.string(), z.enum(REPEATABLE, `must be one of ${REPEATABLE.join(", ")}`), {
    error: "must be an object: { … }",
  })
  .superRefine((given, ctx) => {
    const names = Object.keys(given);
    if (names.length > MOST_HEADERS) refuse(ctx, `may be at most ${MOST_HEADERS}`);
    const seen = new Set<string>();
    for (const name of names) {
      const lower = name.toLowerCase();
      if (name.length > MAX_HEADER_NAME || !HEADER_NAME.test(name)) refuse(ctx, "is not a header name", name);
      else if (!mayStandBeside(name)) refuse(ctx, "is a header that a delivery or its connection has already", name);
      else if (seen.has(lower)) refuse(ctx, "is given more than once", name);
      seen.add(lower);
    }
  });

const gateway = section({
  upstream: z.custom<string>(isUpstream, "must be an http:// or https:// URL without credentials, query or fragment"),
  keyHeader: z
    .custom<string>(
      (value) => typeof value === "string" && /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/.test(value),
      "must be a header name",
    )
    .refine((name) => passesOn(name.toLowerCase()), "must be another header: the gateway does not pass it on")
    .optional(),
});

export const configSchema = (around: ConfigSurroundings) =>
  options({
    dataDir: textValue,
    server: server(around.configDir),
    storage: plugin<StoragePlugin>("storage", "sqlite()"),
    sources: list(plugin<SourcePlugin>("source", "http()")).superRefine(eachOnce),
    transports: list(plugin<TransportPlugin>("transport", "https()"))
      .refine((value) => value.length > 0, "must name at least one, such as https()")
      .superRefine(eachNamed),
    auth: plugin<AuthPlugin>("auth", "accounts() or jwt({ … })"),
    observers: list(plugin<ObserverPlugin>("observer", "otlp()")),
    events,
    validate: choiceValue("off", "warn", "refuse"),
    transforms: z.custom<Readonly<Record<string, Transform>>>().superRefine(eachTransform),
    transformLimits: options({ timeoutMs: ms(10, 10_000), memoryMb: whole(16, 4_096), workers: whole(2, 64) }),
    retry,
    delivery,
    guard: guard(around),
    limits: limits(around.endpoints),
    abuse: orFalse(abuse),
    stepUp,
    health: orFalse(health),
    signature: options({ ed25519: flag, headers: repeatedHeaders }),
    subscriptions: options({ perKey: whole(1, 100_000) }),
    notify,
    intake: options({
      maxPending: whole(0, 1_000_000_000),
      maxPendingPerKey: whole(0, 1_000_000_000),
      reserveBytes: whole(0, 1_000_000_000_000_000),
      // Two batches of 8 MiB: one caller must not fill it alone.
      maxBodyBytes: whole(16_777_216, 1_099_511_627_776),
    }),
    metrics: options({ token: tokenValue, port: whole(0, 65_535) }),
    log: options({ level: choiceValue(...LOG_LEVELS) }),
    gateway,
    jobs: list(job(around.cronValid)),
    dashboard: flag,
    portal: portal(around.configDir),
    threads: z.custom<"auto" | number>(
      (value) => value === "auto" || (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 64),
      'must be "auto" or a whole number from 1 to 64',
    ),
  });

export type CheckedConfig = z.output<ReturnType<typeof configSchema>>;
