/** Turns an operator's config into a `Plan` with all defaults filled in, or reports every problem at once. */
import { resolve } from "node:path";
import { validate as cronValid } from "node-cron";
import { stepsFit } from "../core/lib/ticks.ts";
import { checkAllow } from "../core/guard/allow.ts";
import { scheduleOf } from "../core/model/subscription.ts";
import { FAILED_AUTHENTICATION_ROW } from "../core/limits/takes.ts";
import type { LimitRows, ObserverPlugin, Plan } from "../core/ports/plan.ts";
import * as defaults from "./defaults.ts";
import type { Environment, Settings } from "./environment.ts";
import { otlpOfEnvironment } from "../plugins/observer/otlp.ts";
import { accounts, http, https, jwt, redis, retention, sqlite } from "./index.ts";
import { defaultRows } from "./limits.ts";
import { eventNames } from "./event-types.ts";
import { HOST_RULE, isHost, isToken, LOG_LEVELS } from "./check-plan.ts";
import { notifyOf, unknownTransforms } from "./notify.ts";
import { pluginProblems } from "./plugin-problems.ts";
import { ConfigError, pathText, type ConfigProblem } from "./problems.ts";
import { configSchema, type CheckedConfig } from "./schema.ts";
import { portalOf } from "./schema-portal.ts";

/** The surroundings of a config: where relative paths begin, and what flags and environment set. */
export interface Frame {
  readonly configDir: string;
  /** Paths given by flag or environment begin here. */
  readonly cwd: string;
  readonly settings: Settings;
  /** Where OpenTelemetry's variables are read. @default none of them is set */
  readonly env?: Environment;
  /** Problems found before: they are reported together with the others. */
  readonly problems?: readonly ConfigProblem[];
  /** The file, for the message. */
  readonly file?: string;
}

/** The longest timeoutMs that a subscription may ask for. */
const MOST_TIMEOUT_MS = 30_000;
const LEASE_SPARE_MS = 5_000;

/** Endpoints that have no row unless the config gives them one. */
const UNLIMITED = ["POST /events"];

const canRun = (expression: string): boolean =>
  expression.trim() !== "" && cronValid(expression) && stepsFit(expression);

/** @throws ConfigError naming every problem; nothing else, whatever the config is */
export function resolvePlan(config: unknown, frame: Frame): Plan {
  const problems = [...(frame.problems ?? []), ...settingsProblems(frame.settings)];
  const traces = otlpOfEnvironment(frame.env ?? {});
  problems.push(...(traces?.problems ?? []));
  const schema = configSchema({
    configDir: frame.configDir,
    endpoints: [...Object.keys(defaultRows), ...UNLIMITED],
    allowProblem: (entry) => checkAllow([entry])[0]?.message,
    cronValid: canRun,
  });
  let checked: CheckedConfig = {};
  try {
    const result = schema.safeParse(config, { error: () => "is not valid" });
    if (result.success) checked = result.data;
    else for (const issue of result.error.issues) problems.push({ path: pathText(issue.path), message: issue.message });
  } catch (error) {
    // Getters and proxies of the config may throw anything.
    throw new ConfigError([{ path: "", message: "cannot be read: it throws" }], frame.file, { cause: error });
  }
  const plan = problems.length === 0 ? build(checked, frame, traces) : undefined;
  if (plan !== undefined) {
    problems.push(...missingKeys(plan), ...shortLease(plan), ...samePort(plan));
    problems.push(...unknownTransforms(plan));
    problems.push(...pluginProblems(plan, frame.env ?? process.env, canRun));
  }
  if (plan === undefined || problems.length > 0) throw new ConfigError(problems, frame.file);
  return plan;
}

function build(config: CheckedConfig, frame: Frame, traces: ObserverPlugin | undefined): Plan {
  const { settings, configDir, cwd } = frame;
  const { guard = {}, metrics = {} } = config;
  const limitsCheck = config.limits?.["check"] as { token: string } | undefined;
  return {
    configDir,
    dataDir:
      settings.dataDir === undefined
        ? resolve(configDir, config.dataDir ?? defaults.DATA_DIR)
        : resolve(cwd, settings.dataDir),
    server: over(over(defaults.SERVER, config.server), { host: settings.host, port: settings.port }),
    storage: chooseStorage(config.storage, settings),
    sources: config.sources ?? [http()],
    transports: config.transports ?? [https()],
    auth: config.auth ?? chooseAuth(settings),
    observers: observers(config.observers ?? [], traces),
    ...eventNames(config.events, config.validate),
    transforms: { ...config.transforms },
    transformLimits: over(defaults.TRANSFORM_LIMITS, config.transformLimits),
    retry: retryOf(config),
    delivery: over(defaults.DELIVERY, config.delivery),
    guard: {
      ...over(defaults.GUARD, { allow: guard.allow, ports: guard.ports }),
      ...(guard.nat64 && { nat64: guard.nat64 }),
      ...(guard.ca && { ca: guard.ca }),
    },
    limits: rows(config.limits ?? {}),
    ...(limitsCheck && { limitsCheck }),
    abuse: config.abuse === false ? false : over(defaults.ABUSE, config.abuse),
    stepUp: over(defaults.STEP_UP, config.stepUp),
    health: config.health === false ? false : over(defaults.HEALTH, config.health),
    signature: over(defaults.SIGNATURE, config.signature),
    subscriptions: over(defaults.SUBSCRIPTIONS, config.subscriptions),
    notify: notifyOf(config),
    intake: over(defaults.INTAKE, config.intake),
    metrics,
    log: settings.logLevel === undefined ? over(defaults.LOG, config.log) : { level: settings.logLevel as LogLevel },
    ...(config.gateway && { gateway: { keyHeader: defaults.KEY_HEADER, ...config.gateway } }),
    jobs: config.jobs ?? [retention()],
    dashboard: config.dashboard ?? true,
    portal: portalOf(config.portal, config.dashboard),
    threads: config.threads ?? 1,
    keys: defined({
      master: settings.masterKey,
      older: settings.olderMasterKeys?.trim().split(/[\s,]+/),
      signing: settings.signingKey,
      publishToken: settings.publishToken,
      webhook: settings.webhookKey,
      olderWebhook: settings.olderWebhookKeys?.trim().split(/[\s,]+/),
    }),
  };
}

type LogLevel = Plan["log"]["level"];

/** The environment wins over the file, unless the file says more of Redis than a URL can. */
function chooseStorage(given: Plan["storage"] | undefined, { redisUrl }: Settings): Plan["storage"] {
  if (redisUrl !== undefined && given?.name !== "redis") return redis({ url: redisUrl });
  return given ?? sqlite();
}

/** With RELAY_JWT_SECRET, tokens come from another issuer; otherwise the relay issues its own. */
function chooseAuth({ jwtSecret }: Settings): Plan["auth"] {
  if (jwtSecret === undefined) return accounts();
  return jwt({ secret: jwtSecret, algorithms: ["HS256"], issuer: "relaybox", audience: "relaybox" });
}

/** Traces go where the environment says, unless the config names its own exporter. */
function observers(given: Plan["observers"], traces: ObserverPlugin | undefined): Plan["observers"] {
  return traces === undefined || given.some(({ name }) => name === traces.name) ? given : [...given, traces];
}

function rows(limits: Readonly<Record<string, unknown>>): LimitRows {
  const { check: _, "*": all, ...own } = limits;
  const base: LimitRows =
    all === false
      ? Object.fromEntries(
          [...Object.keys(defaultRows), FAILED_AUTHENTICATION_ROW].map((name) => [name, false as const]),
        )
      : defaultRows;
  return over(base, own as LimitRows);
}

/** Leaves out what is undefined. */
const defined = <T extends object>(given: { readonly [K in keyof T]?: T[K] | undefined }): Partial<T> =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Partial<T>;

/** Puts `given` over `base`; what is undefined in `given` counts as left out. */
const over = <T extends object>(base: T, given: { readonly [K in keyof T]?: T[K] | undefined } = {}): T => ({
  ...base,
  ...defined(given),
});

function retryOf({ retry = {} }: CheckedConfig): Plan["retry"] {
  const { delaysMs, ...backoff } = retry;
  return delaysMs === undefined ? over(defaults.RETRY, backoff) : scheduleOf(delaysMs);
}

/** Judges values from flags and environment by the config's rules. */
function settingsProblems(settings: Settings): ConfigProblem[] {
  const { logLevel, host, publishToken, jwtSecret, redisUrl } = settings;
  const problems: ConfigProblem[] = [];
  const need = (path: string, value: string | undefined, isRight: (value: string) => boolean, rule: string): void => {
    if (value !== undefined && !isRight(value)) problems.push({ path, message: rule });
  };
  need("RELAY_LOG_LEVEL", logLevel, (level) => LOG_LEVELS.some((one) => one === level), LEVEL_RULE);
  need("RELAY_HOST", host, isHost, HOST_RULE);
  need("RELAY_MASTER_KEY", settings.masterKey, isKey, KEY_RULE);
  need("RELAY_SIGNING_KEY", settings.signingKey, isKey, KEY_RULE);
  need("RELAY_WEBHOOK_KEY", settings.webhookKey, isKey, KEY_RULE);
  need("RELAY_PUBLISH_TOKEN", publishToken, isToken, "must be visible ASCII text without spaces");
  need("RELAY_JWT_SECRET", jwtSecret, (text) => Buffer.byteLength(text) >= 32, "must have at least 32 bytes");
  for (const { path, message } of redisUrl === undefined ? [] : (redis({ url: redisUrl }).problems ?? []))
    problems.push({ path: "RELAY_REDIS_URL", message: path === "url" ? message : `${path} ${message}` });
  return problems;
}

const LEVEL_RULE = `must be one of: ${LOG_LEVELS.join(", ")}`;
const KEY_RULE = "must be 32 bytes in base64; `relay keys` prints fresh ones";

/** A lease must outlast the longest attempt, or a second node makes the same attempt meanwhile. */
function shortLease({ storage, delivery }: Plan): ConfigProblem[] {
  const least = Math.max(delivery.timeoutMs, MOST_TIMEOUT_MS) + LEASE_SPARE_MS;
  if (storage.leaseMs === undefined || storage.leaseMs >= least) return [];
  const message = `must be at least ${least}: an attempt may take as long as delivery.timeoutMs (${delivery.timeoutMs}) or a subscription's own timeoutMs (up to ${MOST_TIMEOUT_MS}), and ${LEASE_SPARE_MS} ms more are needed to store its result`;
  return [{ path: "storage.leaseMs", message }];
}

/** Only one of two listeners can have a port. */
function samePort({ server, metrics }: Plan): ConfigProblem[] {
  if (metrics.port === undefined || metrics.port === 0 || metrics.port !== server.port) return [];
  const message = `must not be the server's own port (${server.port}); without a port of their own, metrics are served there with metrics.token`;
  return [{ path: "metrics.port", message }];
}

/** Nodes that share one storage must hold the same keys, so that none can be made by one of them. */
function missingKeys({ storage, keys, signature }: Plan): ConfigProblem[] {
  if (storage.shared !== true) return [];
  const wanted = [
    ["RELAY_MASTER_KEY", keys.master],
    ["RELAY_SIGNING_KEY", keys.signing],
    ["RELAY_PUBLISH_TOKEN", keys.publishToken],
    ...(signature.ed25519 ? [["RELAY_WEBHOOK_KEY", keys.webhook] as const] : []),
  ] as const;
  const message = `must be given, because ${storage.name}() is shared by several nodes; \`relay keys\` prints fresh ones`;
  return wanted.filter(([, key]) => key === undefined).map(([path]) => ({ path, message }));
}

/** 32 bytes in base64 of either alphabet, as `core/runtime/keys/keyring.ts` reads them. */
const isKey = (text: string): boolean =>
  /^[A-Za-z0-9+/_-]{43}=?$/.test(text.trim()) && Buffer.from(text.trim(), "base64").length === 32;
