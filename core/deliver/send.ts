/**
 * Makes one attempt: signs it with the secrets that are live now, sends it with the transport of its URL, and returns
 * its record.
 */
import type { Attempt } from "../model/attempt.ts";
import type { Credentials } from "../model/credentials.ts";
import { deliveryId } from "../model/delivery.ts";
import type { Signable } from "../model/signable.ts";
import type { Subscription } from "../model/subscription.ts";
import type { TransportChoice } from "../model/transport-choice.ts";
import type { Clock } from "../ports/clock.ts";
import type { Reply, Transport } from "../ports/transport.ts";
import { excerptText } from "./excerpt.ts";
import type { CachedEvent } from "./event-cache.ts";

/** What sending needs of the signing room. */
interface Sign {
  sign(sub: Subscription, event: Signable, now: number): Record<string, string>;
  /** Returns the subscription's static header values in clear text, which are masked in what people see. */
  hidden(sub: Subscription): readonly string[];
  /** Returns what the subscription proves itself with, in clear. */
  credentials(sub: Subscription): Credentials | undefined;
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

/** Longest text of a transport that is kept with an attempt. */
const LONGEST_DETAIL = 500;

export function createSend(deps: {
  readonly transportOf: TransportChoice<Transport>;
  readonly signer: Sign;
  readonly clock: Clock;
  /** Deadline of an attempt where the subscription sets none, ms. */
  readonly timeoutMs: number;
  /** Masks secrets in what a transport says. @default nothing is masked */
  readonly hide?: ((text: string) => string) | undefined;
}): Send {
  const { transportOf, signer, clock, hide = String } = deps;

  return async (sub, { event, body }, { cycle, number }, signal) => {
    const transport = transportOf(sub.url);
    const startedAt = clock.now();
    const began = clock.monotonic();
    const { id: eventId, type, ordinal, keyId, traceparent } = event;
    const headers = signer.sign(sub, { eventId, type, body, attempt: number, cycle, traceparent }, startedAt);
    const timeoutMs = sub.timeoutMs ?? deps.timeoutMs;
    const { id: subscriptionId, url } = sub;
    const messageId = `${deliveryId(ordinal, subscriptionId)}_${cycle}`;
    const credentials = signer.credentials(sub);
    const request = { url, headers, body, timeoutMs, subscriptionId, keyId, messageId };
    const reply: Reply =
      typeof transport === "string"
        ? { kind: "error", error: "protocol", detail: transport }
        : await transport.send(credentials === undefined ? request : { ...request, credentials }, signal);
    const durationMs = Math.round((clock.monotonic() - began) * 10) / 10;
    const made = { cycle, number, startedAt, durationMs };
    if (reply.kind !== "response") {
      // Masked before it is cut: no mask knows a secret of which the cut leaves a part.
      const detail = hide(reply.detail).slice(0, LONGEST_DETAIL);
      const error = reply.kind === "error" ? reply.error : "connect";
      return { reply: { ...reply, detail }, attempt: { ...made, error, detail } };
    }
    const attempt: Attempt =
      reply.excerpt.length === 0
        ? { ...made, statusCode: reply.status }
        : {
            ...made,
            statusCode: reply.status,
            responseExcerpt: excerptText(reply.excerpt, hiddenOf(signer.hidden(sub), reply.hidden), reply.truncated),
            responseTruncated: reply.truncated,
          };
    return { reply, attempt };
  };
}

/** The list itself where there is no more to hide: the forms of its values are kept by it. */
const hiddenOf = (values: readonly string[], more: readonly string[] | undefined): readonly string[] =>
  more === undefined ? values : [...values, ...more];
