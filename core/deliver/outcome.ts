/** Judges a reply, as one pure function. Errors are our faults and never come here; outcomes are the receiver's. */
import type { Outcome } from "../model/attempt.ts";
import type { RetryOptions } from "../model/subscription.ts";
import type { Reply } from "../ports/transport.ts";
import { retryAfterMs, retryDelayMs } from "./retry.ts";

interface AttemptPosition {
  /** Number of the attempt just made, 1…5. */
  readonly attempt: number;
  readonly retry: RetryOptions;
  /** Epoch ms at which the reply came. */
  readonly now: number;
  /** A number in [0, 1). */
  readonly random: number;
}

export function judge(reply: Reply, { attempt, retry, now, random }: AttemptPosition): Outcome {
  if (reply.kind === "response") {
    if (reply.status >= 200 && reply.status < 300) return { kind: "delivered" };
    if (reply.status === 410) return { kind: "gone" };
  }
  const asks = reply.kind === "response" && (reply.status === 429 || reply.status === 503);
  const pauseMs = asks ? retryAfterMs(reply.retryAfter, now) : undefined;
  const pause = pauseMs === undefined ? {} : { pauseMs };
  if (attempt >= retry.attempts) return { kind: "exhausted", ...pause };
  const own = retryDelayMs(attempt, retry, random);
  return { kind: "retry", at: now + Math.max(own, pauseMs ?? 0), ...pause };
}
