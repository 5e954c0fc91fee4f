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
import type { StepUpRule } from "../model/token.ts";
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
  /** Failed attempts in a row that open the circuit breaker; a quarter as many time-outs do. */
  readonly breakerAfter: number;
  /** The first pause before one attempt is let through. Each further one is twice as long. */
  readonly breakerPauseMs: number;
  /** The longest pause. */
  readonly breakerMaxPauseMs: number;
  /** A subscription that has only failed for this long is disabled. */
  readonly disableAfterMs: number;
}

export interface AbuseOptions {
  /** Suspends a caller who was refused this many times the sustained limit of a row within `windowMs`. */
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
  /** An older suspension does not lengthen the next one. */
  readonly forgetMs: number;
}

export interface ServerOptions {
  /** Address to listen on. @default "127.0.0.1" */
  readonly host: string;
  /** 0 asks for any free port. @default 8080 */
  readonly port: number;
  /** Addresses and CIDRs whose `X-Forwarded-For` is believed. @default [] */
  readonly trustedProxies: readonly string[];
  /** A stop takes no longer than this, in milliseconds. @default 9000 */
  readonly shutdownMs: number;
  /** Open connections beyond this are closed at once. @default 10000 */
  readonly maxConnections: number;
  /**
   * Sources and transports without which `/readyz` answers 503, such as `"source:amqp"`. Others that are away make it
   * `degraded`, which is 200. @default []
   */
  readonly readyNeeds?: readonly string[];
  /** PEM files to serve HTTPS with. @default plain HTTP */
  readonly tls?: {
    /** PEM file with the certificate and those that lead to its authority. */
    readonly cert: string;
    /** PEM file with the private key. */
    readonly key: string;
  };
}

export interface DeliveryOptions {
  /**
   * One attempt, from the lookup of the name to the end of the answer's headers, in milliseconds; a body that comes
   * later is not waited for. @default 10000
   */
  readonly timeoutMs: number;
  /** Attempts under way at once; those to slow receivers at most half of them. @default 512 */
  readonly concurrency: number;
  /** Attempts under way at once to one subscription. @default it adapts */
  readonly perSubscription?: number | undefined;
  /** Waits for a retry up to this long are held in memory, in milliseconds. @default 30000 */
  readonly holdMs: number;
  /**
   * Obeys the header `webhook-delivery` of a receiver's answer: `disable` disables the subscription, `abort-message` ends the
   * delivery as failed. @default false
   */
  readonly receiverControl?: boolean | undefined;
}

export interface GuardOptions {
  /** Targets beyond the public internet that may be called: CIDR, address or host, then `:port` or `:*`. @default [] */
  readonly allow: readonly string[];
  /**
   * Prefixes of a NAT64, such as `64:ff9b::/96`: an address in one is judged by the IPv4 address inside. @default none
   */
  readonly nat64?: readonly string[];
  /** Ports that may be called on public addresses. @default [443] */
  readonly ports: readonly number[];
  /** PEM file with certificate authorities, added to the system's. @default none */
  readonly ca?: string;
}

export interface SignatureOptions {
  /**
   * Signs each delivery by Ed25519 too (`v1a` of Standard Webhooks), and publishes the key at
   * `/.well-known/relay-keys`. @default false
   */
  readonly ed25519: boolean;
  /** Repeats headers of each delivery under other names, at most 16: `{ "svix-id": "webhook-id" }`. @default {} */
  readonly headers: RepeatedHeaders;
}

export interface IntakeOptions {
  /** Publishing is refused while this many deliveries are pending; 0: no such limit. @default 0 */
  readonly maxPending: number;
  /** The same for one API key. @default 0 */
  readonly maxPendingPerKey: number;
  /**
   * Bytes of the disk, or of the memory of Redis, that stay free for what was accepted, beside what pending deliveries
   * may still write: below it publishing is refused (`STORAGE_FULL`); 0: no check. @default 128 MiB, or a tenth of a
   * smaller disk
   */
  readonly reserveBytes?: number;
  /**
   * Publishing is refused while this many bytes of bodies are under way; one address, and one token, gets a quarter at
   * most, and always room for one batch. At least 16 MiB. @default 67_108_864
   */
  readonly maxBodyBytes: number;
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
  readonly server: ServerOptions;
  readonly storage: StoragePlugin;
  readonly sources: readonly SourcePlugin[];
  readonly transports: readonly TransportPlugin[];
  readonly auth: AuthPlugin;
  readonly observers: readonly ObserverPlugin[];
  /** The catalogue of event names; `undefined` for any well-formed name. */
  readonly events?: readonly string[];
  /** Descriptions of the types in the catalogue; absent where it only names them. */
  readonly eventTypes?: EventTypes;
  /** Functions that make bodies of deliveries. A relay knows their names; only a process of their own calls them. */
  readonly transforms: Readonly<Record<string, Transform>>;
  readonly transformLimits: TransformLimits;
  readonly retry: RetryOptions;
  readonly delivery: DeliveryOptions;
  readonly guard: GuardOptions;
  /** Every row of the tables, overrides applied. */
  readonly limits: LimitRows;
  readonly limitsCheck?: { readonly token: string };
  readonly abuse: AbuseOptions | false;
  readonly stepUp: StepUpRule;
  readonly health: HealthOptions | false;
  readonly signature: SignatureOptions;
  readonly subscriptions: { readonly perKey: number };
  readonly notify: NotifyOptions;
  readonly intake: IntakeOptions;
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
