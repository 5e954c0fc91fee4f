/** The transport port: one request to the far side, and what came of it. */
import type { AttemptError } from "../model/attempt.ts";

export interface TransportRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** One total deadline over name, connection, TLS, headers and body, in milliseconds. */
  readonly timeoutMs: number;
  /** Names the limits of the attempt for connection reuse: attempts of one subscription may share connections. */
  readonly subscriptionId: string;
}

/** What the far side did, or which stage on the way to it failed. A value: nothing here is an exception. */
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
  /** Port of a URL that names none; asked by the guard where there is no `problems`. @default 443 */
  readonly defaultPort?: number;
  /**
   * Judges a URL when a subscription is created or its URL changed: one line on what is wrong with it for its subscriber,
   * or `undefined`. Left out, the guard judges the URL's host and port as it judges those of `PluginContext.connect`; so a
   * transport whose URLs name no host of the network needs it.
   */
  problems?(url: string): Promise<string | undefined> | string | undefined;
  /**
   * Sends one request and resolves to what came of it, within `timeoutMs`.
   * @throws the signal's reason when `signal` aborts; any other rejection means that the relay itself is broken, and the
   * attempt is neither counted nor recorded
   */
  send(request: TransportRequest, signal: AbortSignal): Promise<Reply>;
  /** Forgets connections kept for one subscription. */
  forget?(subscriptionId: string): void;
  dispose(): Promise<void>;
}
