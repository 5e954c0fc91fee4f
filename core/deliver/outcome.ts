/** Judges a reply, and says when the next attempt is due. Pure. Errors are ours and never come here. */
import type { Outcome } from "../model/attempt.ts";
import type { RetryOptions } from "../model/subscription.ts";
import type { Reply } from "../ports/transport.ts";

/**
 * @param at the number of the attempt just made, 1…5, with the epoch ms at which the reply came and a number in [0, 1)
 */
export function judge(
  reply: Reply,
  at: {
    readonly attempt: number;
    readonly retry: RetryOptions;
    readonly now: number;
    readonly random: number;
    /** True: the receiver may say what follows. */
    readonly receiverControl?: boolean | undefined;
  },
): Outcome {
  const { attempt, retry, now, random, receiverControl } = at;
  const control =
    receiverControl === true && reply.kind === "response" ? reply.control?.trim().toLowerCase() : undefined;
  if (reply.kind === "response") {
    const disables = control === "disable";
    if (reply.status >= 200 && reply.status < 300)
      return disables ? { kind: "delivered", disables } : { kind: "delivered" };
    if (reply.status === 410) return { kind: "gone" };
    if (disables) return { kind: "disabled" };
  }
  const asks = reply.kind === "response" && (reply.status === 429 || reply.status === 503);
  const pauseMs = asks ? retryAfterMs(reply.retryAfter, now) : undefined;
  const pause = pauseMs === undefined ? {} : { pauseMs };
  if (control === "abort-message") return { kind: "aborted", ...pause };
  if (attempt >= retry.attempts) return { kind: "exhausted", ...pause };
  const own = retryDelayMs(attempt, retry, random);
  return { kind: "retry", at: now + Math.max(own, pauseMs ?? 0), ...pause };
}

const RETRY_AFTER_MIN_MS = 1_000;
const RETRY_AFTER_MAX_MS = 3_600_000;
/** Waits are lengthened by up to this share, so that the retries of one outage do not come back as one wave. */
const JITTER = 0.1;

/**
 * Returns the wait after attempt `n`, in ms.
 * @param n 1 for the first attempt; below `retry.attempts`
 * @param random in [0, 1)
 */
export function retryDelayMs(n: number, retry: RetryOptions, random: number): number {
  const plain =
    retry.delaysMs === undefined
      ? Math.min(retry.firstDelayMs * retry.factor ** (n - 1), retry.maxDelayMs)
      : (retry.delaysMs[n - 1] ?? 0);
  return Math.round(plain * (1 + JITTER * random));
}

/**
 * Returns how long `Retry-After` asks to wait, ms, clamped to 1 s … 1 h (RFC 9110, 10.2.3: seconds or a date).
 * `undefined` when there is none or it cannot be read.
 */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  const wait = /^\d+$/.test(text) ? Number(text) * 1_000 : httpDate(text) - now;
  if (Number.isNaN(wait)) return undefined;
  return Math.min(Math.max(wait, RETRY_AFTER_MIN_MS), RETRY_AFTER_MAX_MS);
}

/** RFC 9110 dates begin with a day's name; `Date.parse` alone would take "5 apples". */
const httpDate = (text: string): number =>
  /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text) ? Date.parse(text) : Number.NaN;
