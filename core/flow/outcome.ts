/** What a reply means: one pure function. Errors are our faults and never come here; outcomes are theirs. */
import type { RetryOptions } from "../model/subscription.ts";
import type { Reply } from "../ports/transport.ts";
import { retryAfterAt, retryDelayMs } from "./retry.ts";

export type Outcome =
  | { readonly kind: "delivered" }
  /** `pauseUntil`: the receiver asked for quiet until then (epoch ms). */
  | { readonly kind: "retry"; readonly at: number; readonly pauseUntil?: number }
  | { readonly kind: "exhausted"; readonly pauseUntil?: number }
  /** 410: the endpoint is gone for good. */
  | { readonly kind: "gone" };

export interface Standing {
  /** Number of the attempt that was just made, 1…5. */
  readonly attempt: number;
  readonly retry: RetryOptions;
  /** Epoch ms when the reply came. */
  readonly now: number;
  /** In [0, 1). */
  readonly random: number;
}

export function judge(reply: Reply, { attempt, retry, now, random }: Standing): Outcome {
  if (reply.kind === "response") {
    if (reply.status >= 200 && reply.status < 300) return { kind: "delivered" };
    if (reply.status === 410) return { kind: "gone" };
  }
  const asks = reply.kind === "response" && (reply.status === 429 || reply.status === 503);
  const pauseUntil = asks ? retryAfterAt(reply.retryAfter, now) : undefined;
  const pause = pauseUntil === undefined ? {} : { pauseUntil };
  if (attempt >= retry.attempts) return { kind: "exhausted", ...pause };
  const own = now + retryDelayMs(attempt, retry, random);
  return { kind: "retry", at: Math.max(own, pauseUntil ?? 0), ...pause };
}
