/** The plan: a checked config with every default filled in. `config` makes it, and `compose` builds a relay from it. */
import type { Auth } from "./auth.ts";
import type { Observer } from "./observer.ts";
import type { Plugin } from "./plugin.ts";
import type { Source } from "./source.ts";
import type { Storage } from "./storage.ts";
import type { Transport } from "./transport.ts";
import type { EventTypes } from "../model/event-type.ts";
import type { RepeatedHeaders } from "../model/header-names.ts";
import type { Portal } from "../model/portal.ts";
import type { RetryOptions } from "../model/subscription.ts";
import type { Transform, TransformLimits } from "../model/transform.ts";

/** `shared`: several nodes may use it at once, so the config must give their keys. */
export type StoragePlugin = Plugin<"storage", Storage> & { readonly shared?: boolean };
export type SourcePlugin = Plugin<"source", Source>;
export type TransportPlugin = Plugin<"transport", Transport>;
export type AuthPlugin = Plugin<"auth", Auth>;
export type ObserverPlugin = Plugin<"observer", Observer>;

/** A limits row: requests per 60 s and per 5 s. */
export interface LimitRow {
  readonly perMinute: number;
  readonly per5s: number;
}

/** `METHOD /path/{param}` → its row; `false` where the limit is switched off. */
export type LimitRows = Readonly<Record<string, LimitRow | false>>;

/** A job that node-cron starts. `name` chooses what it does: `core/replay` or `core/retention`. */
export type Job =
  | {
      readonly kind: "job";
      readonly name: "replay";
      /** Cron expression, UTC. */
      readonly schedule: string;
      readonly olderThanMs: number;
      readonly maxAgeMs: number;
      readonly maxReplays: number;
      readonly limit: number;
      readonly perSecond: number;
    }
  | {
      readonly kind: "job";
      readonly name: "retention";
      readonly schedule: string;
      /** `undefined`: never deleted. */
      readonly deliveredAfterMs?: number;
      readonly failedAfterMs?: number;
      /** API key → what differs for it. */
      readonly keys?: Readonly<Record<string, RetentionRule>>;
      /** Pattern of event names → what differs for those that match, unless their key says otherwise. The first counts. */
      readonly types?: Readonly<Record<string, RetentionRule>>;
    };

/** How long ended events of some key or type are kept. What is left out is as the wider rule says; `false`: for ever. */
export interface RetentionRule {
  readonly deliveredAfterMs?: number | false;
  readonly failedAfterMs?: number | false;
}

export interface HealthOptions {
  /** Failed attempts in a row that open the circuit breaker of a subscription; a quarter as many time-outs do. */
  readonly breakerAfter: number;
  /** The first pause, before one attempt is let through. Each further pause is twice as long. */
  readonly breakerPauseMs: number;
  /** The longest pause. */
  readonly breakerMaxPauseMs: number;
  /** A subscription that has only failed for this long is disabled. */
  readonly disableAfterMs: number;
}

export interface AbuseOptions {
  /** A caller is suspended when this many times the sustained limit of a row was refused within `windowMs`. */
  readonly factor: number;
  /** See `factor`. */
  readonly windowMs: number;
  /** This many wrong codes of a second factor within `failuresWindowMs` suspend the account there. */
  readonly failures: number;
  /** See `failures`. */
  readonly failuresWindowMs: number;
  /** The first suspension. Each further one is twice as long. */
  readonly suspendMs: number;
  /** The longest suspension. */
  readonly maxSuspendMs: number;
  /** A suspension that is older than this does not lengthen the next one. */
  readonly forgetMs: number;
}

/** Where the relay sends its notices about all keys to its operator. */
export interface NotifyTarget {
  readonly url: string;
  /** Names and patterns that begin with `relay:`. */
  readonly events: readonly string[];
  /** A transform of the config that makes its bodies. */
  readonly transform?: string;
}

interface NotifyOptions {
  readonly to: readonly NotifyTarget[];
  /** Pending deliveries of the relay above which it is reported; 0: never. */
  readonly pending: number;
  /** The same for one API key. */
  readonly pendingPerKey: number;
}

export interface Plan {
  readonly dataDir: string;
  readonly configDir: string;
  readonly server: {
    readonly host: string;
    /** 0 asks for any free port. */
    readonly port: number;
    /** CIDRs or addresses. */
    readonly trustedProxies: readonly string[];
    readonly shutdownMs: number;
    readonly maxConnections: number;
    /** Names of the parts of `/readyz` that must be ready beside the relay's own: `source:amqp`. */
    readonly readyNeeds?: readonly string[];
    /** Absolute paths. */
    readonly tls?: { readonly cert: string; readonly key: string };
  };
  readonly storage: StoragePlugin;
  readonly sources: readonly SourcePlugin[];
  readonly transports: readonly TransportPlugin[];
  readonly auth: AuthPlugin;
  readonly observers: readonly ObserverPlugin[];
  /** The catalogue of event names; `undefined` for any well-formed name. */
  readonly events?: readonly string[];
  /** What the config says of the types in the catalogue; absent where it only names them. */
  readonly eventTypes?: EventTypes;
  /** Functions that make bodies of deliveries. A relay knows their names; only a process of their own calls them. */
  readonly transforms: Readonly<Record<string, Transform>>;
  readonly transformLimits: TransformLimits;
  readonly retry: RetryOptions;
  readonly delivery: {
    readonly timeoutMs: number;
    readonly concurrency: number;
    readonly perSubscription?: number | undefined;
    readonly holdMs: number;
  };
  /** `ca`: absolute path of a PEM file, added to the system's. */
  readonly guard: { readonly allow: readonly string[]; readonly ports: readonly number[]; readonly ca?: string };
  /** Every row of the tables, overrides applied. */
  readonly limits: LimitRows;
  readonly limitsCheck?: { readonly token: string };
  readonly abuse: AbuseOptions | false;
  readonly stepUp: { readonly acr: readonly string[]; readonly amr: readonly string[]; readonly maxAgeMs: number };
  readonly health: HealthOptions | false;
  /** Signatures of deliveries beside the HMAC ones, and headers that repeat others under another name. */
  readonly signature: { readonly ed25519: boolean; readonly headers: RepeatedHeaders };
  readonly subscriptions: { readonly perKey: number };
  readonly notify: NotifyOptions;
  readonly intake: {
    readonly maxPending: number;
    readonly maxPendingPerKey: number;
    readonly maxBodyBytes: number;
    readonly reserveBytes?: number;
  };
  readonly metrics: { readonly token?: string; readonly port?: number };
  readonly log: { readonly level: "trace" | "debug" | "info" | "warn" | "error" | "silent" };
  readonly gateway?: { readonly upstream: string; readonly keyHeader: string };
  readonly jobs: readonly Job[];
  readonly dashboard: boolean;
  /** The page for customers behind portal links; `false`: there is none. */
  readonly portal: Portal | false;
  /** Has no effect any more: anything but 1 is warned of. */
  readonly threads: "auto" | number;
  /** Keys given in the config. `undefined`: made at the first start in `dataDir/keys`. Shared storage needs all three. */
  readonly keys: {
    /** 32 bytes, base64. */
    readonly master?: string;
    /** Former master keys: they open what they sealed, and seal nothing more. */
    readonly older?: readonly string[];
    /** Ed25519 private key seed, 32 bytes, base64. */
    readonly signing?: string;
    readonly publishToken?: string;
    /** Ed25519 private key seed that signs deliveries, 32 bytes, base64. */
    readonly webhook?: string;
    /** Former or coming ones: they sign deliveries too, while receivers change over. */
    readonly olderWebhook?: readonly string[];
  };
}
