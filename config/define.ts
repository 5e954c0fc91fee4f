/** Types the config, as an operator writes it, and has `defineRelay`, give an editor that type. */
import type {
  AbuseOptions,
  AuthPlugin,
  DeliveryOptions,
  GuardOptions,
  IntakeOptions,
  ServerOptions,
  SignatureOptions,
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
import type { PortalColors } from "../core/model/portal.ts";
import type { RetrySettings } from "../core/model/subscription.ts";
import type { StepUpRule } from "../core/model/token.ts";
import type { Transform, TransformLimits } from "../core/model/transform.ts";

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
  /** Folder of the relay's own files, mode 0700. @default "./data" */
  readonly dataDir?: string;
  readonly server?: Partial<ServerOptions>;
  /** Where everything is kept. @default sqlite(), or redis({ url }) where RELAY_REDIS_URL is set */
  readonly storage?: StoragePlugin;
  /** Where events come from. @default [http()] */
  readonly sources?: readonly SourcePlugin[];
  /** How deliveries leave, by URL scheme. @default [https()] */
  readonly transports?: readonly TransportPlugin[];
  /** Who may use the management API. @default accounts() */
  readonly auth?: AuthPlugin;
  /** Plug-ins that watch events and attempts. @default otlp() where OTEL_EXPORTER_OTLP_ENDPOINT is set, beside those named here */
  readonly observers?: readonly ObserverPlugin[];
  /**
   * The catalogue: a list of names, or for each name a `schema` of its `data` (JSON Schema 2020-12), an `example`, a
   * `description`, `deprecated` and its own `validate`. @default any well-formed name
   */
  readonly events?: readonly string[] | Readonly<Record<string, EventTypeOptions>>;
  /**
   * What becomes of an event whose data does not match its schema: `"off"` passes it, `"warn"` passes, counts and logs
   * it, `"refuse"` refuses the publication. @default "refuse"
   */
  readonly validate?: Validation;
  /**
   * Functions that make the body of a delivery, by the name that a subscription gives as its `transform`. They run in
   * processes of their own, which load this file too. @default none
   */
  readonly transforms?: Readonly<Record<string, Transform>>;
  readonly transformLimits?: Partial<TransformLimits>;
  /**
   * When a failed attempt is made again: any part of a backoff, or `delaysMs`, the waits themselves. @default 5
   * attempts, 5 s × 4, at most 1 h
   */
  readonly retry?: RetrySettings;
  readonly delivery?: Partial<DeliveryOptions>;
  readonly guard?: Partial<GuardOptions>;
  readonly limits?: LimitsConfig;
  /** Suspension of who presses on after refusals. `false`: never. @default 5 × the sustained limit in 60 s → 300 s */
  readonly abuse?: Partial<AbuseOptions> | false;
  readonly stepUp?: Partial<StepUpRule>;
  /** Breaker and automatic disabling. `false`: neither. @default 20 failures or 5 time-outs in a row → 60 s…15 min; 5 days → disabled */
  readonly health?: Partial<HealthOptions> | false;
  readonly signature?: Partial<SignatureOptions>;
  readonly subscriptions?: {
    /** Subscriptions that one API key may have. @default 50 */
    readonly perKey?: number;
  };
  readonly notify?: {
    /**
     * Where the relay reports breakers, disabled subscriptions, failures, secrets and backlogs of all keys: at most one
     * of a kind about one subscription within an hour. @default []
     */
    readonly to?: readonly {
      /** Of any transport: `https://…`, or `mail://<connection>/<address>`. */
      readonly url: string;
      /** Event names and patterns that begin with `relay:`. @default those that are limited to one an hour */
      readonly events?: readonly string[];
      /** A transform that makes the bodies, such as a chat's. @default none */
      readonly transform?: string;
    }[];
    /** More pending deliveries than this are reported; 0: never. @default half of `intake.maxPending` */
    readonly pending?: number;
    /** The same for each API key. @default half of `intake.maxPendingPerKey` */
    readonly pendingPerKey?: number;
  };
  readonly intake?: Partial<IntakeOptions>;
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
    /** Where `/v1` is forwarded to. It must authenticate its callers. @default none */
    readonly upstream: string;
    /** Header that carries the API key. @default "X-API-Key" */
    readonly keyHeader?: string;
  };
  /** Jobs that run by the clock. @default [retention()] */
  readonly jobs?: readonly Job[];
  /** Serves the page at /developers. @default true */
  readonly dashboard?: boolean;
  /** The dashboard of one key, for your customers behind portal links; `false`: none. @default {} unless `dashboard` is false */
  readonly portal?: Partial<PortalOptions> | false;
  /** Has no effect any more, and goes with the next version: run several nodes on a local Redis. @default 1 */
  readonly threads?: "auto" | number;
}

interface PortalOptions {
  /**
   * The origin that links begin with, `https://hooks.example.com`, and the path that a proxy takes away. @default links are
   * relative
   */
  readonly url: string;
  /** The name on the page. @default "Relay" */
  readonly name: string;
  /** The picture beside it: the path of a PNG, SVG, JPEG or WebP file, or a data URL; at most 64 KiB. @default none */
  readonly logo: string;
  /**
   * `accent` (links, buttons), `page`, `card` and `text`, each `#rrggbb`, of `light` and `dark`. Hard to read ones are
   * refused. @default those of the dashboard
   */
  readonly colors: PortalColors;
  /** The address of your own documentation, to which the page leads. @default none */
  readonly docs: string;
  /** Origins whose pages may frame the portal. @default [] */
  readonly frameAncestors: readonly string[];
}

/** Gives a config its type and returns it as it is. */
export function defineRelay(config: RelayConfig): RelayConfig {
  return config;
}
