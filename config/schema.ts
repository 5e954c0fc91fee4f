/** The shape of the whole config, as one zod schema. */
import { z } from "zod";
import { passesOn } from "../core/api/gateway/headers.ts";
import { isAsync, NOT_ASYNC } from "../core/lib/at-once.ts";
import { TRANSFORM_NAME, type Transform } from "../core/model/transform.ts";
import { LEAST_DELAY_MS, LONGEST_SCHEDULE_MS, MOST_DELAYS, scheduleProblem } from "../core/model/subscription.ts";
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
  orFalse,
  pem,
  plugin,
  section,
  textValue,
  tokenValue,
  whole,
  YEARS_MS,
} from "./check-plan.ts";
import { ABUSE, DELIVERY, HEALTH, RETRY, STEP_UP } from "./defaults.ts";
import { events } from "./schema-events.ts";
import { repeatedHeaders } from "./schema-headers.ts";
import { job } from "./schema-jobs.ts";
import { notify } from "./schema-notify.ts";
import { limits } from "./schema-limits.ts";
import { portal } from "./schema-portal.ts";

/** What the checks need from outside the config. */
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
    if (ownName === true) {
      const message = `${name} is the name of sources[${first}] too: give this one a name of its own`;
      ctx.addIssue({ code: "custom", path: [i, "name"], message });
    }
    if (once !== true) continue;
    ctx.addIssue({
      code: "custom",
      path: [i],
      message: `${name}() may stand once only: give the first one all it needs`,
    });
  }
}

/** Refuses a second connection of the same kind and name (`nats:bus`): a URL could mean either. */
function eachNamed(transports: readonly TransportPlugin[], ctx: z.core.$RefinementCtx): void {
  for (const [i, { name }] of transports.entries()) {
    const [kind, own] = name.split(":");
    if (own === undefined || transports.findIndex((other) => other.name === name) === i) continue;
    const message = `is the name of an earlier connection: another ${kind} connection needs another name`;
    ctx.addIssue({ code: "custom", path: [i, "name"], message });
  }
}

/** Refuses what is no function, or has a name that no subscription could give. */
function eachTransform(transforms: unknown, ctx: z.core.$RefinementCtx): void {
  const issue = (path: string[], message: string): void => ctx.addIssue({ code: "custom", path, message });
  if (!isKeyed(transforms)) return issue([], "must be an object of functions: { name: (event) => … }");
  for (const [name, transform] of Object.entries(transforms)) {
    if (!TRANSFORM_NAME.test(name))
      issue([name], "must be named by a letter, then letters, digits, _ and -, at most 64");
    else if (typeof transform !== "function") issue([name], "must be a function: (event) => …");
    else if (isAsync(transform)) issue([name], NOT_ASYNC);
  }
}

/** The schema of the whole config. */
export function configSchema(around: ConfigSurroundings) {
  const wait = ms(10, 3_600_000);
  return section({
    dataDir: textValue.optional(),
    server: section({
      host: host.optional(),
      port: whole(0, 65_535).optional(),
      trustedProxies: list(z.custom<string>(isNetwork, "must be an address or a CIDR, such as 10.0.0.0/8")).optional(),
      shutdownMs: ms(0, 3_600_000).optional(),
      maxConnections: whole(1, 1_000_000).optional(),
      readyNeeds: list(textValue).optional(),
      tls: section({
        cert: pem(around.configDir, /-----BEGIN CERTIFICATE-----/, "a certificate"),
        key: pem(around.configDir, /-----BEGIN [A-Z ]*PRIVATE KEY-----/, "a private key"),
      }).optional(),
    }).optional(),
    storage: plugin<StoragePlugin>("storage", "sqlite()").optional(),
    sources: list(plugin<SourcePlugin>("source", "http()")).superRefine(eachOnce).optional(),
    transports: list(plugin<TransportPlugin>("transport", "https()"))
      .refine((value) => value.length > 0, "must name at least one, such as https()")
      .superRefine(eachNamed)
      .optional(),
    auth: plugin<AuthPlugin>("auth", "accounts() or jwt({ … })").optional(),
    observers: list(plugin<ObserverPlugin>("observer", "otlp()")).optional(),
    events: events.optional(),
    validate: choiceValue("off", "warn", "refuse").optional(),
    transforms: z.custom<Readonly<Record<string, Transform>>>().superRefine(eachTransform).optional(),
    transformLimits: section({
      timeoutMs: ms(10, 10_000).optional(),
      memoryMb: whole(16, 4_096).optional(),
      workers: whole(2, 64).optional(),
    }).optional(),
    retry: section({
      attempts: whole(1, 5).optional(),
      firstDelayMs: wait.optional(),
      factor: number(1, 10).optional(),
      maxDelayMs: wait.optional(),
      delaysMs: list(ms(LEAST_DELAY_MS, LONGEST_SCHEDULE_MS))
        .refine((value) => value.length > 0 && value.length <= MOST_DELAYS, `must have 1 to ${MOST_DELAYS} waits`)
        .optional(),
    })
      .superRefine((value, ctx) => {
        const message = scheduleProblem(value);
        if (message !== undefined) ctx.addIssue({ code: "custom", path: ["delaysMs"], message });
      })
      .refine((value) => (value.firstDelayMs ?? RETRY.firstDelayMs) <= (value.maxDelayMs ?? RETRY.maxDelayMs), {
        path: ["maxDelayMs"],
        message: "must not be less than firstDelayMs",
      })
      .optional(),
    delivery: section({
      timeoutMs: ms(10, 30_000).optional(),
      concurrency: whole(1, 100_000).optional(),
      perSubscription: whole(1, 100_000).optional(),
      holdMs: ms(0, 3_600_000).optional(),
    })
      .refine(
        (value) =>
          value.perSubscription === undefined || value.perSubscription <= (value.concurrency ?? DELIVERY.concurrency),
        {
          path: ["perSubscription"],
          message: "must not be more than concurrency",
        },
      )
      .optional(),
    guard: section({
      allow: list(
        z
          .custom<string>((value) => typeof value === "string", "must be text, such as 10.2.0.0/16:8443")
          .superRefine((entry, ctx) => {
            const message = around.allowProblem(entry);
            if (message !== undefined) ctx.addIssue({ code: "custom", message });
          }),
      ).optional(),
      ports: list(whole(1, 65_535))
        .refine((value) => value.length > 0, "must name at least one port, such as 443")
        .optional(),
      ca: pem(around.configDir, /-----BEGIN CERTIFICATE-----/, "certificates").optional(),
    }).optional(),
    limits: limits(around.endpoints).optional(),
    abuse: orFalse(
      section({
        factor: number(1, 1_000).optional(),
        windowMs: ms(1_000, 3_600_000).optional(),
        failures: whole(1, 1_000_000).optional(),
        failuresWindowMs: ms(1_000, 86_400_000).optional(),
        suspendMs: ms(1_000, 86_400_000).optional(),
        maxSuspendMs: ms(1_000, 30 * 86_400_000).optional(),
        forgetMs: ms(1_000, 366 * 86_400_000).optional(),
      }).refine((value) => (value.suspendMs ?? ABUSE.suspendMs) <= (value.maxSuspendMs ?? ABUSE.maxSuspendMs), {
        path: ["maxSuspendMs"],
        message: "must not be less than suspendMs",
      }),
    ).optional(),
    stepUp: section({
      acr: list(textValue).optional(),
      amr: list(textValue).optional(),
      maxAgeMs: ms(1_000, 86_400_000).optional(),
    })
      .refine((value) => (value.acr ?? STEP_UP.acr).length + (value.amr ?? STEP_UP.amr).length > 0, {
        path: ["amr"],
        message: "must name at least one where acr names none, or no second factor ever counts",
      })
      .optional(),
    health: orFalse(
      section({
        breakerAfter: whole(1, 1_000_000).optional(),
        breakerPauseMs: ms(1, 86_400_000).optional(),
        breakerMaxPauseMs: ms(1, 86_400_000).optional(),
        disableAfterMs: ms(1_000, YEARS_MS).optional(),
      }).refine(
        (value) =>
          (value.breakerPauseMs ?? HEALTH.breakerPauseMs) <= (value.breakerMaxPauseMs ?? HEALTH.breakerMaxPauseMs),
        {
          path: ["breakerMaxPauseMs"],
          message: "must not be less than breakerPauseMs",
        },
      ),
    ).optional(),
    signature: section({ ed25519: flag.optional(), headers: repeatedHeaders.optional() }).optional(),
    subscriptions: section({ perKey: whole(1, 100_000).optional() }).optional(),
    notify: notify.optional(),
    intake: section({
      maxPending: whole(0, 1_000_000_000).optional(),
      maxPendingPerKey: whole(0, 1_000_000_000).optional(),
      reserveBytes: whole(0, 1_000_000_000_000_000).optional(),
      // Two batches of 8 MiB: one caller must not fill it alone.
      maxBodyBytes: whole(16_777_216, 1_099_511_627_776).optional(),
    }).optional(),
    metrics: section({ token: tokenValue.optional(), port: whole(0, 65_535).optional() }).optional(),
    log: section({ level: choiceValue(...LOG_LEVELS).optional() }).optional(),
    gateway: section({
      upstream: z.custom<string>(
        isUpstream,
        "must be an http:// or https:// URL without credentials, query or fragment",
      ),
      keyHeader: z
        .custom<string>(
          (value) => typeof value === "string" && /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/.test(value),
          "must be a header name",
        )
        .refine((name) => passesOn(name.toLowerCase()), "must be another header: the gateway does not pass it on")
        .optional(),
    }).optional(),
    jobs: list(job(around.cronValid)).optional(),
    dashboard: flag.optional(),
    portal: portal(around.configDir).optional(),
    threads: z
      .custom<"auto" | number>(
        (value) =>
          value === "auto" || (typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= 64),
        'must be "auto" or a whole number from 1 to 64',
      )
      .optional(),
  });
}

export type CheckedConfig = z.output<ReturnType<typeof configSchema>>;
