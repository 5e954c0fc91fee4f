/** The embedded default: what every key of the config is when it is left out. Plug-ins are chosen in `validate`. */
import type { AbuseOptions, HealthOptions, Plan } from "../core/ports/plan.ts";
import type { Validation } from "../core/model/event-type.ts";
import { DEFAULT_RETRY } from "../core/model/subscription.ts";

export const DATA_DIR = "./data";

export const SERVER: Plan["server"] = {
  host: "127.0.0.1",
  port: 8080,
  trustedProxies: [],
  shutdownMs: 9_000,
  maxConnections: 10_000,
};
export const VALIDATE: Validation = "refuse";
export const RETRY = DEFAULT_RETRY;
export const TRANSFORM_LIMITS: Plan["transformLimits"] = { timeoutMs: 1_000, memoryMb: 64, workers: 2 };
export const DELIVERY: Plan["delivery"] = { timeoutMs: 10_000, concurrency: 512, holdMs: 30_000 };
export const GUARD = { allow: [] as readonly string[], ports: [443] as readonly number[] };
export const ABUSE: AbuseOptions = {
  factor: 5,
  windowMs: 60_000,
  failures: 10,
  failuresWindowMs: 600_000,
  suspendMs: 300_000,
  maxSuspendMs: 3_600_000,
  forgetMs: 86_400_000,
};
export const STEP_UP: Plan["stepUp"] = { acr: [], amr: ["mfa"], maxAgeMs: 300_000 };
export const HEALTH: HealthOptions = {
  breakerAfter: 20,
  breakerPauseMs: 60_000,
  breakerMaxPauseMs: 900_000,
  disableAfterMs: 432_000_000,
};
export const SIGNATURE: Plan["signature"] = { ed25519: false, headers: {} };
export const SUBSCRIPTIONS: Plan["subscriptions"] = { perKey: 50 };
export const INTAKE: Plan["intake"] = { maxPending: 0, maxPendingPerKey: 0, maxBodyBytes: 67_108_864 };
export const LOG: Plan["log"] = { level: "info" };
export const KEY_HEADER = "X-API-Key";
