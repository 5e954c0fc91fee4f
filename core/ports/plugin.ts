/** The shape of every plug-in, and the context that `setup` gives it. */
import type { Socket } from "node:net";
import type { AuditEntry } from "../model/audit.ts";
import type { SecretOption } from "../model/secret-option.ts";
import type { Clock } from "./clock.ts";
import type { Route } from "./route.ts";
import type { Entry, Change, RangeOptions } from "./storage.ts";

export type { Route, RouteReply, RouteRequest } from "./route.ts";

/** Implemented by sources and auth ports that serve routes, such as login. */
export interface Routes {
  readonly routes?: readonly Route[];
}

/** Implemented by sources and transports that depend on something outside. */
export interface Readiness {
  /**
   * Says in one plain line why it cannot work now (`"no connection to RabbitMQ"`); `undefined`: it can. It is called at each
   * `/readyz` and each reading of the metrics, so it returns what is known already. One receiver that is away is no reason.
   * A plug-in that is away makes the node `degraded`, which is still ready, unless `server.readyNeeds` names it.
   */
  readiness?(): string | undefined;
}

/** A plug-in is a plain value made by a factory (`sqlite({ dir })`). Nothing happens until `setup`. */
export interface Plugin<Kind extends string, Port> {
  readonly kind: Kind;
  readonly name: string;
  /** True when a config may name it only once, because its routes cannot be served twice. @default false */
  readonly once?: boolean;
  /**
   * True when its name begins the ids or places of what it stores, so that no other plug-in of its kind may have the same.
   * @default false
   */
  readonly ownName?: boolean;
  /**
   * Problems of the options that the factory got; paths are of the options (`tokens[0]`). A start shows them
   * together with all other problems of the config, so a factory never throws.
   */
  readonly problems?: readonly { readonly path: string; readonly message: string }[];
  /**
   * Warnings of what the options allow but hardly mean, for `relay check`; paths are of the options. Must not throw.
   * @param configDir where relative paths begin
   */
  readonly warnings?: (configDir: string) => readonly { readonly path: string; readonly message: string }[];
  /** Tells what the options set that a person wants to see in `relay check`, in a few words without secrets. */
  readonly about?: string;
  /**
   * Returns what is wrong with the files that the options name. A start and `relay check` show it with all other problems of the
   * config; paths are of the options. Must not throw.
   * @param configDir where relative paths begin
   */
  readonly fileProblems?: (configDir: string) => readonly { readonly path: string; readonly message: string }[];
  /**
   * Looks at what it reads from or writes to, and changes nothing there, for `relay check --machine`. Returns what does not
   * fit, or fits badly; nothing when all is well. It has a quarter of a minute.
   * @throws Error when it cannot be reached
   */
  readonly inspect?: (ctx: Pick<PluginContext, "clock" | "configDir" | "secret">) => Promise<readonly Inspected[]>;
  /** For a storage: how long a claim lasts without a renewal, ms. `undefined`: as long as the process lives. */
  readonly leaseMs?: number;
  /**
   * The routes that its source or auth port will serve, as `POST /orders`. Two plug-ins that name the same one are a problem
   * of the config, which `relay check` shows; one that is not named here is found at the start.
   */
  readonly routes?: readonly string[];
  /**
   * Cron expressions among its options, by their paths. One that node-cron cannot run is a problem of the config. A factory
   * judges it no further than that it is text.
   */
  readonly schedules?: Readonly<Record<string, string>>;
  /** Metrics of its own. They stand in `/metrics`, at zero where they have no labels, before `setup` is called. */
  readonly metrics?: readonly MetricDeclaration[];
  /**
   * Its secret options as the config gives them, by their paths (`url`, `tokens[0]`); `undefined` where one is left out.
   * They may be `secretFrom(…)`. The relay reads them before `setup` (`PluginContext.secret`), reports what cannot be read
   * as a problem of the config, and replaces the values by `[masked]` in the log, in problems and in `/readyz`.
   */
  readonly secrets?: Readonly<Record<string, SecretOption | undefined>>;
  /**
   * Opens what the plug-in needs and returns its port. Called once per relay. A library is loaded here, not at import. It has
   * two minutes (a storage has no such bound); something outside that is away, such as a broker, is no reason to fail: the
   * source or transport starts, says so in `readiness`, and connects later.
   * @throws StartError with the exit code that fits; anything else ends the start with 69 (a failed system call) or 78
   */
  setup(ctx: PluginContext): Promise<Port> | Port;
}

/** Something outside that does not fit a plug-in's options. */
export interface Inspected {
  /** True when the plug-in does not work with it. */
  readonly isBad: boolean;
  /** What is not as it should be, and what it should be, without secrets. */
  readonly message: string;
}

/**
 * One metric of a plug-in. `PluginContext.metrics` counts it under the same name. `/metrics` shows it from the start on;
 * plug-ins that declare exactly the same metric share it.
 */
export interface MetricDeclaration {
  /** The whole name: `relay_plugin_` or `relay_<kind of the plug-in>_`, then lower case. A counter's ends in `_total`. */
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  /** One line on what it counts. */
  readonly help: string;
  readonly labels?: readonly string[];
  /** Upper bounds of a histogram, ascending. @default from 2.5 ms to 30 s, in seconds */
  readonly buckets?: readonly number[];
  /** Most sets of label values, 1 to 100; what comes beyond is counted under `other`. @default 16 */
  readonly series?: number;
}

/** Writes one line per call, without fields that the log does not allow. Never pass a secret, a token or a body. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * Counters, gauges and histograms: the relay's own by their short names (`source_lag_seconds`), those that the plug-in
 * declares in `Plugin.metrics` by their whole names. Label values must come from a small set; beyond its bound they count
 * under `other`. A name that nobody declared is ignored.
 */
export interface Metrics {
  count(name: string, labels?: Readonly<Record<string, string>>, by?: number): void;
  gauge(name: string, value: number, labels?: Readonly<Record<string, string>>): void;
  /** @param seconds the observed duration (or size, where the name says so) */
  observe(name: string, seconds: number, labels?: Readonly<Record<string, string>>): void;
}

/**
 * Authorities that one target of TLS is trusted by, and the certificate that it is shown. Keep one object for one identity: what is built of it, and the
 * sessions of its connections, are kept by the object. PEM texts that have been checked (`core/model/certificate.ts`).
 */
export interface TlsIdentity {
  /** Authorities trusted in place of all others. @default the system's and those of `guard.ca` */
  readonly ca?: string;
  /** The client certificate, those that issued it after it. */
  readonly cert?: string;
  /** Its private key. */
  readonly key?: string;
}

/** An HTTP proxy of the operator's, which connections go through (CONNECT). The guard's rules are for the targets behind it. */
export interface ConnectProxy {
  /** Host as in `new URL(url).hostname`. */
  readonly hostname: string;
  readonly port: number;
  /** True when the proxy itself is reached over TLS. */
  readonly tls: boolean;
  /** `Proxy-Authorization` */
  readonly authorization?: string;
}

/** The target of a guarded connection. */
export interface ConnectTarget {
  /** Host as in `new URL(url).hostname`: a name, an IPv4 literal or a bracketed IPv6 literal. */
  readonly hostname: string;
  readonly port: number;
  /** True (the default) for TLS with full verification; there is no way to switch verification off. */
  readonly tls?: boolean;
  /** Protocols offered by ALPN. @default ["http/1.1"] */
  readonly alpn?: readonly string[];
  /** Where the target has authorities or a client certificate of its own. */
  readonly identity?: TlsIdentity;
  /**
   * The proxy to connect through. The name is still resolved and its addresses checked here; the proxy gets an address
   * that was allowed, never the name.
   */
  readonly proxy?: ConnectProxy;
}

/**
 * The guarded connector: the only way out of the process. Resolves the name, refuses addresses that are not allowed,
 * connects to the address that it checked, and compares the peer's address before TLS.
 * @throws ConnectError with the stage that failed; ProxyError when the proxy fails, not the target
 */
export type Connect = (target: ConnectTarget, signal: AbortSignal) => Promise<Socket>;

/** The plug-in's own store: the relay's storage under a prefix that nobody else uses, with the same promises. */
export interface ScopedStorage {
  getItem(key: string): Promise<string | undefined>;
  range(prefix: string, options?: RangeOptions): Promise<readonly Entry[]>;
  /** @param audit entries for the audit trail, stored in the same commit */
  commit(changes: readonly Change[], audit?: readonly AuditEntry[]): Promise<void>;
}

/** The relay's own keys. A plug-in uses them without seeing them. */
export interface Keys {
  /** Encrypts with the master key (AES-256-GCM). `aad` binds the text to its place. The result is printable text. */
  seal(plain: string, aad: string): string;
  /** @throws Error when the text was tampered with, moved to another place, or sealed by another key */
  open(sealed: string, aad: string): string;
  /**
   * Signs a JWT payload with the relay's Ed25519 key. `iat`, `exp`, `iss` and `aud` come from `claims`.
   * @param typ the type in its header. @default "at+jwt"
   */
  signToken(claims: Readonly<Record<string, unknown>>, typ?: string): Promise<string>;
  /** The public key, for the JWKS. */
  publicJwk(): Readonly<Record<string, unknown>>;
}

/**
 * Runs one guess of `who` at a code that opens `place`. A guess that rejects with UNAUTHENTICATED counts as wrong: ten
 * within ten minutes suspend `who` at `place`, on every node. No limits row and no `abuse` setting switches this off.
 * @throws Problem ABUSE_SUSPEND while suspended, BURST_EXCEEDED when several are under way; else what `attempt` throws
 */
export type Guess = <T>(place: string, who: string, attempt: () => Promise<T>) => Promise<T>;

/** Handed to `setup`: everything that a plug-in may use of its surroundings. */
export interface PluginContext {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly connect: Connect;
  /** ofetch over the guarded connector, for control traffic (never for deliveries). */
  readonly fetch: (url: string, options?: FetchOptions) => Promise<FetchReply>;
  /** Not available while the storage itself is being set up: reading it then throws. */
  readonly storage: ScopedStorage;
  readonly keys: Keys;
  /**
   * Writes a refusal to the audit trail: of those with the same `alike` the first of each minute, and no more than 20 a minute
   * of one actor. Never rejects.
   */
  readonly refused: (entry: AuditEntry, alike: string) => Promise<void>;
  /** Counts guesses at codes; see `Guess`. */
  readonly guess: Guess;
  /**
   * Reads a secret option that the plug-in names in `Plugin.secrets`, by its path.
   * @throws StartError 78 when the config leaves it out
   */
  readonly secret: (path: string) => string;
  /** The relay's own publish token, for sources that the config gives none. */
  readonly publishToken?: string;
  /** Folder of the relay's own files. It exists, with mode 0700. */
  readonly dataDir: string;
  /** The folder that relative paths in the config start from. */
  readonly configDir: string;
}

export interface FetchOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly timeoutMs?: number;
  /** Longest answer that is read, in bytes. @default 65536 */
  readonly maxBytes?: number;
  readonly signal?: AbortSignal;
}
export interface FetchReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}
