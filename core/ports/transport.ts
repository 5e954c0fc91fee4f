/** The transport port: it sends one request to the receiver and returns the reply. */
import type { AttemptError } from "../model/attempt.ts";

export interface TransportRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** One total deadline for name, connection, TLS, headers and body, in milliseconds. */
  readonly timeoutMs: number;
  /** Connections may be reused among attempts of one subscription, never across subscriptions. */
  readonly subscriptionId: string;
}

/** What the receiver answered, or the stage at which the request failed. A plain value, never an exception. */
export type Reply =
  | {
      readonly kind: "response";
      readonly status: number;
      /** The raw `Retry-After`, if any. */
      readonly retryAfter?: string;
      /** At most 4 KiB of the body, as it came, never inflated. */
      readonly excerpt: Uint8Array;
      readonly truncated: boolean;
    }
  | { readonly kind: "error"; readonly error: AttemptError; readonly detail: string };

export interface Transport {
  /** URL schemes it serves, without the colon. */
  readonly schemes: readonly string[];
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
  /** Closes the connections kept for one subscription. */
  forget?(subscriptionId: string): void;
  dispose(): Promise<void>;
}
