/**
 * Makes one attempt: signs it with the secrets that are live now, sends it with the transport of the URL's scheme, and
 * returns its record.
 */
import type { Attempt } from "../model/attempt.ts";
import type { Signable } from "../model/signable.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Reply, Transport } from "../ports/transport.ts";
import { excerptText } from "./excerpt.ts";
import type { CachedEvent } from "./event-cache.ts";

/** What sending needs of the signing room. */
export interface Sign {
  sign(sub: Subscription, event: Signable, now: number): Record<string, string>;
  /** Returns the subscription's static header values in clear text, which are masked in what people see. */
  hidden(sub: Subscription): readonly string[];
}

export interface SentAttempt {
  readonly reply: Reply;
  readonly attempt: Attempt;
}

/** Makes one attempt. @throws the signal's reason, or a fault of ours: then nothing is counted */
export type Send = (
  sub: Subscription,
  loaded: CachedEvent,
  turn: { readonly cycle: number; readonly number: number },
  signal: AbortSignal,
) => Promise<SentAttempt>;

export function createSend(deps: {
  readonly transports: readonly Transport[];
  readonly signer: Sign;
  readonly clock: Clock;
  /** Deadline of an attempt where the subscription sets none, ms. */
  readonly timeoutMs: number;
}): Send {
  const { signer, clock } = deps;
  const byScheme = new Map(
    deps.transports.flatMap((transport) => transport.schemes.map((scheme) => [scheme, transport])),
  );

  return async (sub, { event, body }, { cycle, number }, signal) => {
    const scheme = sub.url.slice(0, sub.url.indexOf(":"));
    const transport = byScheme.get(scheme);
    const startedAt = clock.now();
    const began = clock.monotonic();
    const { id: eventId, type, traceparent } = event;
    const headers = signer.sign(sub, { eventId, type, body, attempt: number, cycle, traceparent }, startedAt);
    const timeoutMs = sub.timeoutMs ?? deps.timeoutMs;
    const reply: Reply = transport
      ? await transport.send({ url: sub.url, headers, body, timeoutMs, subscriptionId: sub.id }, signal)
      : { kind: "error", error: "protocol", detail: `no transport in the config serves ${scheme}: URLs` };
    const durationMs = Math.round((clock.monotonic() - began) * 10) / 10;
    const base = { cycle, number, startedAt, durationMs };
    if (reply.kind === "error") return { reply, attempt: { ...base, error: reply.error, detail: reply.detail } };
    const attempt: Attempt =
      reply.excerpt.length === 0
        ? { ...base, statusCode: reply.status }
        : {
            ...base,
            statusCode: reply.status,
            responseExcerpt: excerptText(reply.excerpt, signer.hidden(sub)),
            responseTruncated: reply.truncated,
          };
    return { reply, attempt };
  };
}
