/** An attempt: one request on the wire, and what came of it. */

/** The stage at which an attempt failed without a usable response. */
export type AttemptError = "dns" | "guard" | "connect" | "tls" | "timeout" | "reset" | "protocol";

export interface Attempt {
  readonly cycle: number;
  /** 1…5 within a cycle. */
  readonly number: number;
  /** Epoch ms. */
  readonly startedAt: number;
  readonly durationMs: number;
  readonly statusCode?: number;
  readonly error?: AttemptError;
  /** One line for people about `error`. */
  readonly detail?: string;
  /** At most 4 KiB of the response, as text. */
  readonly responseExcerpt?: string;
  readonly responseTruncated?: boolean;
}

/** What an attempt means for its delivery. */
export type Outcome =
  | { readonly kind: "delivered" }
  /** `at` is epoch ms. `pauseMs`: the receiver asked for quiet for so long. */
  | { readonly kind: "retry"; readonly at: number; readonly pauseMs?: number }
  | { readonly kind: "exhausted"; readonly pauseMs?: number }
  /** 410: the endpoint is gone for good. */
  | { readonly kind: "gone" };
