/** What deliveries need of transforms: the body that a subscription's transform makes, or the attempt that failed there. */
import type { Attempt } from "../model/attempt.ts";
import type { Subscription } from "../model/subscription.ts";
import type { CachedEvent } from "./event-cache.ts";
import type { Send, SentAttempt } from "./send.ts";

type TurnOf = Pick<Attempt, "cycle" | "number">;

/**
 * Returns the event with the body that is sent instead of its own; or the attempt that failed because there is none; or
 * how long the subscription has to wait, ms, because too many wait already or the transforms cannot be run now.
 * @throws the signal's reason
 */
export type Transforming = (
  sub: Subscription,
  loaded: CachedEvent,
  turn: TurnOf,
  signal: AbortSignal,
) => Promise<CachedEvent | SentAttempt | number>;

/** An attempt that ended before anything was sent. */
export function transformFailed(
  turn: TurnOf,
  detail: string,
  times: Pick<Attempt, "startedAt" | "durationMs">,
): SentAttempt {
  const error = "transform";
  return {
    reply: { kind: "error", error, detail },
    attempt: { ...turn, ...times, error, detail },
  };
}

/** Sends an event, or what a transform has made of it; where it has made nothing, the attempt is over. */
export function sendMade(
  send: Send,
  sub: Subscription,
  made: CachedEvent | SentAttempt,
  turn: TurnOf,
  signal: AbortSignal,
): Promise<SentAttempt> {
  if (sub.transform === undefined && !("reply" in made)) return send(sub, made, turn, signal);
  return sendTransformed(send, sub, made, turn, signal);
}

async function sendTransformed(...[send, sub, made, turn, signal]: Parameters<typeof sendMade>): Promise<SentAttempt> {
  const { reply, attempt } = "reply" in made ? made : await send(sub, made, turn, signal);
  return { reply, attempt: { ...attempt, transform: sub.transform } };
}
