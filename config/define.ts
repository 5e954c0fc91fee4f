/** What an operator writes: the config as a type, and `defineRelay`, which gives an editor that type. */
import type {
  AbuseOptions,
  AuthPlugin,
  HealthOptions,
  Job,
  Plan,
  LimitRow,
  ObserverPlugin,
  SourcePlugin,
  StoragePlugin,
  TransportPlugin,
} from "../core/ports/plan.ts";
import type { EventTypeOptions, Validation } from "../core/model/event-type.ts";
import type { RepeatedHeaders } from "../core/model/header-names.ts";
import type { PortalColors } from "../core/model/portal.ts";
import type { RetrySettings } from "../core/model/subscription.ts";
import type { Transform } from "../core/model/transform.ts";

/**
 * Rows of the limits table by `METHOD /path/{param}`: a row replaces ours, `false` switches it off, `"*": false`
 * switches all of them off (rows named beside it stay on). `check` opens `GET /limits/check`.
 */
export type LimitsConfig = {
  readonly [endpoint: string]: LimitRow | false | { readonly token: string } | undefined;
} & {
  /** Opens `GET /limits/check` to a proxy that asks first, with this Bearer token. @default off */
  readonly check?: { readonly token: string } | undefined;
};

export interface RelayConfig {
  /** Folder of the relay's own files; made with mode 0700. Relative to the config file. @default "./data" */
  readonly dataDir?: string;
  readonly server?: {
    /** Address to listen on. @default "127.0.0.1" */
    readonly host?: string;
    /** 0 asks for any free port. @default 8080 */
    readonly port?: number;
    /** Addresses and CIDRs whose `X-Forwarded-For` is believed. @default [] */
    readonly trustedProxies?: readonly string[];
    /** A stop takes no longer than this, in milliseconds. @default 9000 */
    readonly shutdownMs?: number;
    /** Open connections beyond this are closed at once. @default 10000 */
    readonly maxConnections?: number;
    /**
     * Sources and transports without which `/readyz` answers 503, such as `"source:amqp"`. One that is away and not named
     * here makes the relay `degraded`, which is 200. @default []
     */
    readonly readyNeeds?: readonly string[];
    /** PEM files to serve HTTPS with. @default plain HTTP */
    readonly tls?: {
      /** PEM file with the certificate and those that lead to its authority. */
      readonly cert: string;
      /** PEM file with the private key. */
      readonly key: string;
    };
  };
  /** Where everything is kept. @default sqlite(), or redis({ url }) where RELAY_REDIS_URL is set */
  readonly storage?: StoragePlugin;
  /** Where events come from. @default [http()] */
  readonly sources?: readonly SourcePlugin[];
  /** How deliveries leave, by URL scheme. @default [https()] */
  readonly transports?: readonly TransportPlugin[];
  /** Who may use the management API. @default accounts() */
  readonly auth?: AuthPlugin;
  /** What watches events and attempts. @default otlp() where OTEL_EXPORTER_OTLP_ENDPOINT is set, beside those named here */
  readonly observers?: readonly ObserverPlugin[];
  /**
   * The catalogue of event names: a list, or an object that says of each name what its `data` is (`schema`, JSON Schema
   * 2020-12), with an `example`, a `description`, `deprecated` and its own `validate`. @default any well-formed name
   */
  readonly events?: readonly string[] | Readonly<Record<string, EventTypeOptions>>;
  /**
   * What is done with a published event whose data does not match the schema of its type: `"off"` passes it, `"warn"`
   * passes, counts and logs it, `"refuse"` refuses the publication. @default "refuse"
   */
  readonly validate?: Validation;
  /**
   * Functions that make the body of a delivery from its event, by the name that a subscription gives as its `transform`.
   * They run in processes of their own, which load this file too. @default none
   */
  readonly transforms?: Readonly<Record<string, Transform>>;
  readonly transformLimits?: {
    /** The longest run of a transform, in milliseconds. @default 1000 */
    readonly timeoutMs?: number;
    /** Memory that transforms may use in each process, in MiB. @default 64 */
    readonly memoryMb?: number;
    /**
     * Processes that run transforms, started when the first is needed. Slow transforms never hold all of them, so at
     * least 2. @default 2
     */
    readonly workers?: number;
  };
  /**
   * When a failed attempt is made again: any part of a backoff, each with its own default, or `delaysMs`, the waits
   * themselves. @default 5 attempts, 5 s × 4, at most 1 h
   */
  readonly retry?: RetrySettings;
  readonly delivery?: {
    /**
     * One attempt, from the lookup of the name to the end of the answer's headers, in milliseconds; a body that is not
     * there by then is not waited for. @default 10000
     */
    readonly timeoutMs?: number;
    /** Attempts under way at once, in total; those to slow receivers are at most half of them. @default 512 */
    readonly concurrency?: number;
    /**
     * Attempts under way at once to one subscription. Without it the bound adapts: 16 at first, more while the receiver answers
     * quickly and more is due, up to half of `concurrency` and a fair share, fewer after errors. @default it adapts
     */
    readonly perSubscription?: number;
    /** Waits for a retry up to this long are held in memory, in milliseconds. @default 30000 */
    readonly holdMs?: number;
  };
  readonly guard?: {
    /** What may be called beyond the public internet: CIDR, address or host, then `:port` or `:*`. @default [] */
    readonly allow?: readonly string[];
    /** Ports that may be called on public addresses. @default [443] */
    readonly ports?: readonly number[];
    /** PEM file with certificate authorities, added to the system's. @default none */
    readonly ca?: string;
  };
  readonly limits?: LimitsConfig;
  /** Suspension of who presses on after refusals. `false`: never. @default 5 × the sustained limit in 60 s → 300 s */
  readonly abuse?: Partial<AbuseOptions> | false;
  readonly stepUp?: {
    /** `acr` values that prove a second factor. @default [] */
    readonly acr?: readonly string[];
    /** `amr` values that prove a second factor. @default ["mfa"] */
    readonly amr?: readonly string[];
    /** How long ago it may have been, in milliseconds. @default 300000 */
    readonly maxAgeMs?: number;
  };
  /** Breaker and automatic disabling. `false`: neither. @default 20 failures or 5 time-outs in a row → 60 s…15 min; 5 days → disabled */
  readonly health?: Partial<HealthOptions> | false;
  readonly signature?: {
    /**
     * Signs each delivery with an Ed25519 key of the relay too, `v1a` of Standard Webhooks, and publishes the public key at
     * `/.well-known/relay-keys`. @default false
     */
    readonly ed25519?: boolean;
    /**
     * Repeats headers of each delivery under names of one's own, at most 16: `{ "svix-id": "webhook-id" }`. The headers
     * that they repeat are sent as well. @default {}
     */
    readonly headers?: RepeatedHeaders;
  };
  readonly subscriptions?: {
    /** Subscriptions that one API key may have. @default 50 */
    readonly perKey?: number;
  };
  readonly notify?: {
    /**
     * Where the relay reports breakers, disabled subscriptions, failures, secrets and backlogs of all keys to its
     * operator: at most one of a kind about one subscription within an hour. @default []
     */
    readonly to?: readonly {
      /** Of any transport: `https://…`, or `mail://<connection>/<address>`. */
      readonly url: string;
      /** Event names and patterns that begin with `relay:`. @default those that are limited to one an hour */
      readonly events?: readonly string[];
      /** A transform that makes the bodies, such as a chat's. @default none */
      readonly transform?: string;
    }[];
    /** Pending deliveries of the relay above which it is reported; 0: never. @default half of `intake.maxPending` */
    readonly pending?: number;
    /** The same for each API key. @default half of `intake.maxPendingPerKey` */
    readonly pendingPerKey?: number;
  };
  readonly intake?: {
    /** Publishing is refused while this many deliveries are pending; 0: no such limit. @default 0 */
    readonly maxPending?: number;
    /** The same for one API key: its publishers are refused while so many of its deliveries are pending. @default 0 */
    readonly maxPendingPerKey?: number;
    /**
     * Bytes of the disk, or of the memory of Redis, that stay free for what was accepted: below it publishing is refused
     * (`STORAGE_FULL`); 0: no check. What pending deliveries may still write comes on top. @default 128 MiB, or a tenth of a smaller disk
     */
    readonly reserveBytes?: number;
    /**
     * Publishing is refused while this many bytes of bodies are under way; one address, and one token, gets a quarter of
     * them at most, and always room for one batch. At least 16 MiB. @default 67_108_864
     */
    readonly maxBodyBytes?: number;
  };
  readonly metrics?: {
    /** Bearer token that `/metrics` asks for. @default none */
    readonly token?: string;
    /** Serves `/metrics` on a port of its own. @default the server's */
    readonly port?: number;
  };
  readonly log?: {
    /** The least severe lines that are written. @default "info" */
    readonly level?: Plan["log"]["level"];
  };
  readonly gateway?: {
    /** Where `/v1` is forwarded to. It must authenticate its callers: the gateway does not. @default none */
    readonly upstream: string;
    /** Header that carries the API key. @default "X-API-Key" */
    readonly keyHeader?: string;
  };
  /** What runs by the clock. @default [retention()] */
  readonly jobs?: readonly Job[];
  /** Serves the page at /developers. @default true */
  readonly dashboard?: boolean;
  /** The dashboard of one key, for your customers behind portal links; `false`: none. @default {} unless `dashboard` is false */
  readonly portal?: Partial<PortalOptions> | false;
  /** Has no effect any more, and goes with the next version: run several nodes on a local Redis. @default 1 */
  readonly threads?: "auto" | number;
}

interface PortalOptions {
  /** The origin that links begin with: `https://hooks.example.com`. @default where the link was asked for */
  readonly url: string;
  /** The name that the page shows in place of the relay's. @default "Relay" */
  readonly name: string;
  /** The picture beside it: the path of a PNG, SVG, JPEG or WebP file, or a data URL; at most 64 KiB. @default none */
  readonly logo: string;
  /**
   * `accent` (links, buttons), `page`, `card` and `text`, each `#rrggbb`, of the themes `light` and `dark`. Those that make
   * a text hard to read are refused. @default those of the dashboard
   */
  readonly colors: PortalColors;
  /** Origins whose pages may show the portal in a frame. @default [] */
  readonly frameAncestors: readonly string[];
}

/** Gives a config its type and returns it as it is. */
export function defineRelay(config: RelayConfig): RelayConfig {
  return config;
}
