/** An attempt: one request to the receiver, and its result. */
import type { EventHeaders } from "./header-names.ts";

/**
 * The stage at which an attempt failed without a usable response. `token`: its OAuth 2 server gave no access token.
 * `transform`: the subscription's transform made no body, so nothing was sent.
 */
export type AttemptError =
  | "dns"
  | "guard"
  | "connect"
  | "tls"
  | "timeout"
  | "reset"
  | "protocol"
  | "token"
  | "transform";

export interface Attempt {
  readonly cycle: number;
  /** 1…5 within a cycle. */
  readonly number: number;
  /** Epoch ms. */
  readonly startedAt: number;
  readonly durationMs: number;
  readonly statusCode?: number;
  readonly error?: AttemptError;
  /** One line that explains `error` to people. */
  readonly detail?: string;
  /** At most 4 KiB of the response, as text. */
  readonly responseExcerpt?: string;
  readonly responseTruncated?: boolean;
  /** The transform that made the body, or failed to. Absent: the body was the event itself. */
  readonly transform?: string;
}

/** The meaning of an attempt for its delivery. */
export type Outcome =
  | { readonly kind: "delivered"; readonly disables?: true }
  /** `at` is epoch ms. `pauseMs`: how long the receiver asked to be left alone. */
  | { readonly kind: "retry"; readonly at: number; readonly pauseMs?: number }
  | { readonly kind: "exhausted"; readonly pauseMs?: number }
  /** 410: the endpoint is gone for good. */
  | { readonly kind: "gone" }
  /** The receiver has asked that its subscription be disabled, or that this delivery be given up. */
  | { readonly kind: "disabled" }
  | { readonly kind: "aborted"; readonly pauseMs?: number };

/** The attempt that is signed: one of an event, as its receiver gets it. */
export interface Signable {
  readonly eventId: string;
  readonly type: string;
  readonly body: Uint8Array;
  /** 1…5 */
  readonly attempt: number;
  readonly cycle: number;
  readonly traceparent?: string;
  readonly headers?: EventHeaders | undefined;
}
