/** What every kind of plug-in is, and what it is handed when it is set up. */
import type { Socket } from "node:net";
import type { AuditEntry } from "../model/audit.ts";
import type { Clock } from "./clock.ts";
import type { Entry, Change, RangeOptions } from "./storage.ts";

/** A plug-in is a plain value made by a factory (`sqlite({ dir })`). Nothing happens until `setup`. */
export interface Plugin<Kind extends string, Port> {
  readonly kind: Kind;
  readonly name: string;
  /** A config may name it once only: it brings routes of its own. @default false */
  readonly once?: boolean;
  /**
   * What is wrong with the options it was made with; paths are of the options (`tokens[0]`). A start shows them with all
   * other problems of the config. So a factory never throws.
   */
  readonly problems?: readonly { readonly path: string; readonly message: string }[];
  /** Of a storage: how long a claimed delivery belongs to its node without a sign of life, ms. Left out: as long as the process. */
  readonly leaseMs?: number;
  /** Opens what the plug-in needs and returns its port. Called once per relay. A library is loaded here, not at import. */
  setup(ctx: PluginContext): Promise<Port> | Port;
}

/** One wide line a call; `fields` are allow-listed by the log. Never pass a secret, a token or a body. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** Counters, gauges and histograms by name; label values must come from a bounded set. Unknown names are ignored. */
export interface Metrics {
  count(name: string, labels?: Readonly<Record<string, string>>, by?: number): void;
  gauge(name: string, value: number, labels?: Readonly<Record<string, string>>): void;
  /** @param seconds the observed duration (or size, where the name says so) */
  observe(name: string, seconds: number, labels?: Readonly<Record<string, string>>): void;
}

/** Where a guarded connection is to go. */
export interface ConnectTarget {
  /** Host as in `new URL(url).hostname`: a name, an IPv4 literal or a bracketed IPv6 literal. */
  readonly hostname: string;
  readonly port: number;
  /** True (the default) for TLS with full verification; there is no way to switch verification off. */
  readonly tls?: boolean;
  /** Protocols offered by ALPN. @default ["http/1.1"] */
  readonly alpn?: readonly string[];
}

/**
 * The guarded connector: the only way out of the process. Resolves the name, refuses what is not allowed, connects to
 * the address that was checked, compares the peer's address before TLS.
 * @throws ConnectError with the stage that failed
 */
export type Connect = (target: ConnectTarget, signal: AbortSignal) => Promise<Socket>;

/** A store of the plug-in's own: the relay's storage under a prefix that no one else uses. Same promises as the storage. */
export interface ScopedStorage {
  getItem(key: string): Promise<string | undefined>;
  range(prefix: string, options?: RangeOptions): Promise<readonly Entry[]>;
  /** @param audit what the commit is about, for the audit trail: stored with it or not at all */
  commit(changes: readonly Change[], audit?: readonly AuditEntry[]): Promise<void>;
}

/** The relay's own keys, used without being seen. */
export interface Keys {
  /** Encrypts with the master key (AES-256-GCM); `aad` binds the text to its place. The result is printable text. */
  seal(plain: string, aad: string): string;
  /** @throws Error when the text was tampered with, moved to another place, or sealed by another key */
  open(sealed: string, aad: string): string;
  /** Signs a JWT payload with the relay's Ed25519 key; sets `iat`, `exp`, `iss`, `aud` from what is given. */
  signToken(claims: Readonly<Record<string, unknown>>): Promise<string>;
  /** The public half, for the JWKS. */
  publicJwk(): Readonly<Record<string, unknown>>;
}

/**
 * Runs one guess of `who` at a code that opens `place`. A guess that rejects with UNAUTHENTICATED is counted as wrong: ten
 * within ten minutes suspend `who` at `place`, on every node. No limits row and no `abuse` setting switches this off.
 * @throws Problem ABUSE_SUSPEND while suspended, BURST_EXCEEDED when several are under way; else what `attempt` throws
 */
export type Guess = <T>(place: string, who: string, attempt: () => Promise<T>) => Promise<T>;

/** Handed to `setup`. All that a plug-in may use of its surroundings is here. */
export interface PluginContext {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly connect: Connect;
  /** ofetch over the guarded connector, for control traffic (never for deliveries). */
  readonly fetch: (url: string, options?: FetchOptions) => Promise<FetchReply>;
  /** Not there yet while the storage itself is being set up: asking then throws. */
  readonly storage: ScopedStorage;
  readonly keys: Keys;
  /**
   * Puts what was refused on the audit trail. Of refusals that are `alike` only the first of each minute is written.
   * Never rejects.
   */
  readonly refused: (entry: AuditEntry, alike: string) => Promise<void>;
  /** Counts guesses at codes; see `Guess`. */
  readonly guess: Guess;
  /** The relay's own publish token, for sources that were given none. */
  readonly publishToken?: string;
  /** Folder of the relay's own files; exists, mode 0700. */
  readonly dataDir: string;
  /** Where relative paths in the config are resolved. */
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

/** A request as routes of plug-ins see it. Header names are lower case. */
export interface RouteRequest {
  readonly method: string;
  readonly path: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  header(name: string): string | undefined;
  /**
   * The whole body. What all bodies together hold is bounded, and what one address holds, and one `caller` (whoever was
   * authenticated, where that is known).
   * @throws Problem PAYLOAD_TOO_LARGE beyond `maxBytes`, PROVIDER_BACKPRESSURE when there is no room
   */
  body(maxBytes: number, caller?: string): Promise<Uint8Array>;
  /** The client's address, trusted proxies taken into account. */
  readonly address: string;
  readonly requestId: string;
  /** Aborts when the client goes away. */
  readonly signal: AbortSignal;
}
export interface RouteReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Uint8Array;
}

/**
 * An HTTP route that a plug-in brings along. The server matches, times and logs it; the route answers or throws a
 * Problem. `limit` names its row in the limits table, `principal` what is counted there.
 */
export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Segments may be `{name}`; a parameter is one segment. */
  readonly path: string;
  readonly limit?: string;
  /** Who is counted, found before limits are checked; of several, all must pass. @throws Problem UNAUTHENTICATED */
  principal?(request: RouteRequest): Promise<string | readonly string[]> | string | readonly string[];
  handle(request: RouteRequest): Promise<RouteReply>;
}
