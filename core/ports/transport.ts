/** The transport port: it sends one request to the receiver and returns the reply. */
import type { AttemptError } from "../model/attempt.ts";
import type { Credentials } from "../model/credentials.ts";
import type { Readiness } from "./plugin.ts";

export interface TransportRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** One total deadline for name, connection, TLS, headers and body, in milliseconds. */
  readonly timeoutMs: number;
  /** The subscription. What it proves itself with, such as a client certificate or a token, is never used for another. */
  readonly subscriptionId: string;
  /**
   * The API key that owns the event. Connections to a receiver may be reused among attempts of one key, never across
   * keys. A named connection of the config is the relay's own and serves all of them.
   */
  readonly keyId: string;
  /** The same for every attempt of one cycle of a delivery, and for no other: a far side that drops repeats compares it. */
  readonly messageId: string;
  /** Credentials of the subscription, in clear. The same object until the subscription changes. */
  readonly credentials?: Credentials;
}

/** The answer of the receiver, or the stage at which the request failed. A plain value, never an exception. */
export type Reply =
  | {
      readonly kind: "response";
      readonly status: number;
      /** The raw `Retry-After`, if any. */
      readonly retryAfter?: string;
      /** The raw `webhook-delivery`, if any: `disable` or `abort-message`, which `delivery.receiverControl` obeys. */
      readonly control?: string;
      /** At most 4 KiB of the body, as it came, never inflated. */
      readonly excerpt: Uint8Array;
      readonly truncated: boolean;
      /** Texts that the transport sent of its own and that must not be shown, should the receiver repeat it: an access token. */
      readonly hidden?: readonly string[];
    }
  | { readonly kind: "error"; readonly error: AttemptError; readonly detail: string }
  /**
   * A connection that the config names is away: the operator's bus or disk, not the subscriber's endpoint. Nothing is
   * counted or recorded; the subscription is paused and the delivery goes back unchanged. It may have arrived: the next
   * attempt carries the same `messageId`.
   */
  | { readonly kind: "unavailable"; readonly detail: string };

/** Its `readiness` is also read twice a second while subscriptions wait for a connection that is away. */
export interface Transport extends Readiness {
  /** URL schemes it serves, without the colon. */
  readonly schemes: readonly string[];
  /**
   * Name of the connection in the config. With it, the transport serves only those URLs of its schemes that have this
   * name instead of a host; several transports may then serve one scheme. Without it, it serves every host.
   */
  readonly name?: string;
  /**
   * True when it uses `TransportRequest.credentials`. Otherwise a subscription with credentials is refused for its URLs.
   * @default false
   */
  readonly takesCredentials?: boolean;
  /**
   * True: it never changes the bytes of `TransportRequest.body`, which are shared with the other deliveries of the event. It
   * then gets them as they are; otherwise each request has a copy of its own. @default false
   */
  readonly keepsBody?: boolean;
  /** Port of a URL that names none. The guard uses it where there is no `problems`. @default 443 */
  readonly defaultPort?: number;
  /**
   * Checks a URL when a subscription is created or its URL changes: returns one line for the subscriber on what is
   * wrong, or `undefined`. When absent, the guard checks the URL's host and port as it does for
   * `PluginContext.connect`; so a transport whose URLs name no host of the network needs its own check.
   */
  problems?(url: string): Promise<string | undefined> | string | undefined;
  /**
   * Sends one request and resolves to the reply, within `timeoutMs`.
   * @throws the signal's reason when `signal` aborts; any other rejection means that the relay itself is broken, and
   * the attempt is neither counted nor recorded
   */
  send(request: TransportRequest, signal: AbortSignal): Promise<Reply>;
  /** Closes the connections kept for one subscription and no other. */
  forget?(subscriptionId: string): void;
  /**
   * Closes everything. Called once, after the last attempt has ended, before the storage closes. All plug-ins together have
   * half of what is left of `server.shutdownMs`.
   */
  dispose(): Promise<void>;
}
