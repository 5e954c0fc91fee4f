/**
 * Makes one attempt: signs it with the secrets that are live now, sends it with the transport of its URL, and returns
 * its record. What is sent is the event, or what a transform has made of it.
 */
import { within } from "../lib/within.ts";
import type { Attempt, Signable } from "../model/attempt.ts";
import type { Credentials } from "../model/credentials.ts";
import { deliveryId } from "../model/delivery.ts";
import type { Subscription } from "../model/subscription.ts";
import type { TransportChoice } from "../model/transport-choice.ts";
import type { Clock } from "../ports/clock.ts";
import type { Reply, Transport } from "../ports/transport.ts";
import type { CachedEvent } from "./event-cache.ts";

/** The part of the signing room that sending needs. */
interface Sign {
  sign(sub: Subscription, event: Signable, now: number): Record<string, string>;
  /** Returns the subscription's static header values in clear text, which are masked in what people see. */
  hidden(sub: Subscription): readonly string[];
  /** Returns what the subscription proves itself with, in clear. */
  credentials(sub: Subscription): Credentials | undefined;
  /** Returns a URL that is sealed in clear. */
  url(sub: Subscription): string;
}

type TurnOf = Pick<Attempt, "cycle" | "number">;

export interface SentAttempt {
  readonly reply: Reply;
  readonly attempt: Attempt;
}

/** Makes one attempt. @throws the signal's reason, or a fault of ours: then nothing is counted */
export type Send = (sub: Subscription, loaded: CachedEvent, turn: TurnOf, signal: AbortSignal) => Promise<SentAttempt>;

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
    const { id: eventId, type, ordinal, keyId, traceparent, headers: given } = event;
    const signable = { eventId, type, body, attempt: number, cycle, traceparent, headers: given };
    const headers = signer.sign(sub, signable, startedAt);
    const timeoutMs = sub.timeoutMs ?? deps.timeoutMs;
    const { id: subscriptionId } = sub;
    const url = sub.sealedUrl === undefined ? sub.url : signer.url(sub);
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

const MASK = "[masked]";
/** Shorter values are no secrets, and masking them would hide half of a page. */
const LEAST_CHARS = 6;

/** One expression per list of values: a list stays the same until its subscription changes. */
const known = new WeakMap<readonly string[], RegExp>();

/**
 * Returns the bytes as text (invalid UTF-8 becomes U+FFFD). Masks signing secrets and the given values, also where they come
 * back without their scheme, URL-encoded, in hex or in base64. Where the excerpt's end cuts off a word, it leaves that word out: it
 * may be the beginning of a value.
 * @param values what must not show: the subscription's own header values and secrets
 */
export function excerptText(bytes: Uint8Array, values: readonly string[], truncated: boolean): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  let secrets = known.get(values);
  if (secrets === undefined) known.set(values, (secrets = expressionOf(values)));
  const whole = truncated ? text.slice(0, text.search(/[^\s"<>,;{}]*$/)) : text;
  return whole.replace(secrets, MASK);
}

function expressionOf(values: readonly string[]): RegExp {
  const parts = values.flatMap(secretParts).filter((value) => value.length >= LEAST_CHARS);
  const forms = new Set(parts.flatMap(formsOf).toSorted((a, b) => b.length - a.length));
  return new RegExp(["whsec_[A-Za-z0-9+/=_-]*", ...[...forms].map((form) => RegExp.escape(form))].join("|"), "gi");
}

/** Returns a value and the secret parts of it: the token after a scheme, the password in `Basic` credentials. */
function secretParts(value: string): readonly string[] {
  const [, scheme, token] = /^(\S+)\s+(\S.*)$/.exec(value) ?? [];
  if (scheme === undefined || token === undefined) return [value];
  if (scheme.toLowerCase() !== "basic") return [value, token];
  const credentials = Buffer.from(token, "base64").toString("utf8");
  return [value, token, credentials, credentials.slice(credentials.indexOf(":") + 1)];
}

function formsOf(value: string): readonly string[] {
  const bytes = Buffer.from(value, "utf8");
  const base64 = bytes.toString("base64").replace(/=+$/, "");
  return [value, encodeURIComponent(value.toWellFormed()), base64, bytes.toString("base64url"), bytes.toString("hex")];
}

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

/** Tracks requests in flight: a rotation is over only when nothing is under way that the old secret alone has signed. */
export function createInFlight(send: Send, clock: Clock) {
  /** By subscription; each with what those wait for that drain it. */
  const lines = new Map<string, Set<{ ended?: PromiseWithResolvers<void> }>>();
  return {
    // An attempt is signed when it begins: later ones use the secrets that are live then.
    async send(...[sub, loaded, turn, signal]: Parameters<Send>): Promise<SentAttempt> {
      const one: { ended?: PromiseWithResolvers<void> } = {};
      const line = lines.get(sub.id) ?? new Set();
      lines.set(sub.id, line.add(one));
      try {
        return await send(sub, loaded, turn, signal);
      } finally {
        line.delete(one);
        if (line.size === 0) lines.delete(sub.id);
        one.ended?.resolve();
      }
    },
    /** Resolves when all attempts of the subscription in flight here have ended, or after `mostMs`. */
    async drain(subscriptionId: string, mostMs: number): Promise<void> {
      const ended = [...(lines.get(subscriptionId) ?? [])].map(
        (one) => (one.ended ??= Promise.withResolvers()).promise,
      );
      if (ended.length > 0) await within(clock, mostMs, Promise.all(ended));
    },
  };
}
