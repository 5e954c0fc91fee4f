/**
 * Reports of the relay on its own doing, beside each single failed delivery: the states of a subscription, of its
 * secrets, and of a backlog. A notice becomes an operational event for those who ask for its name.
 */
import type { DisabledReason, Subscription } from "./subscription.ts";
import { isoTime } from "../lib/time.ts";

export const NOTICE_TYPES = [
  "relay:breaker.opened",
  "relay:breaker.closed",
  "relay:subscription.failing",
  "relay:subscription.disabled",
  "relay:secret.expiring",
  "relay:pending.high",
  "relay:attention.needed",
  "relay:attention.recovered",
] as const;

type NoticeType = (typeof NOTICE_TYPES)[number];

/** The meaning of each for people, in the OpenAPI document and in mails. */
export const NOTICE_MEANINGS: Readonly<Record<NoticeType | "relay:delivery.failed", string>> = {
  "relay:breaker.opened": "The circuit breaker pauses a subscription.",
  "relay:breaker.closed": "A subscription that was paused has taken an attempt again.",
  "relay:subscription.failing": "A delivery has failed for good. Others within an hour are only counted.",
  "relay:subscription.disabled": "A subscription is disabled.",
  "relay:secret.expiring": "A quarter of the overlap of a rotation is left: use the new secret from now on.",
  "relay:pending.high": "More deliveries are pending than `notify.pendingPerKey`, or than `notify.pending` in all.",
  "relay:attention.needed":
    "Something needs attention of which no other notice tells: order that is held, a rate limit, a certificate, a part of the relay.",
  "relay:attention.recovered": "What `relay:attention.needed` told of is over.",
  "relay:delivery.failed": "A delivery has failed for good: one event for each.",
};

export interface Notice {
  readonly type: NoticeType;
  /** The API key that it concerns; absent: the whole relay. */
  readonly keyId?: string;
  /** Id of a subscription or of a key, or the whole relay. Within an hour one of a type is reported about it. */
  readonly about: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** A notice of this type about the same is out of date from now on. */
  readonly ends?: NoticeType;
  /** It is found again and again: one that is held back is not reported later, when it may not hold any more. */
  readonly lasting?: true;
}

/** Of one type about one thing, at most one notice is reported within this time. */
export const NOTICE_MS = 3_600_000;

type Named = Pick<Subscription, "id" | "keyId" | "url">;

/** A URL's path and query may be secret, so a notice names only its host. */
const hostOf = (url: string): string | undefined => URL.parse(url)?.host;

const noticeOf = (type: NoticeType, { keyId, id, url }: Named, data: Notice["data"]): Notice => ({
  type,
  keyId,
  about: id,
  data: { subscriptionId: id, host: hostOf(url), ...data },
});

/** @param until epoch ms at which the first pause ends */
export const breakerOpened = (sub: Named, failures: number, since: number, until: number): Notice => ({
  ...noticeOf("relay:breaker.opened", sub, {
    failures,
    failingSince: isoTime(since),
    pausedUntil: isoTime(until),
  }),
  ends: "relay:breaker.closed",
});

export const breakerClosed = (sub: Named, since: number): Notice => ({
  ...noticeOf("relay:breaker.closed", sub, { failingSince: isoTime(since) }),
  ends: "relay:breaker.opened",
});

/** @param failure what failed, as in `relay:delivery.failed` */
export const subscriptionFailing = (sub: Named, failure: Notice["data"]): Notice =>
  noticeOf("relay:subscription.failing", sub, failure);

/** @param reason a `DisabledReason`, or `by_hand` */
export const subscriptionDisabled = (sub: Named, reason: DisabledReason | "by_hand"): Notice =>
  noticeOf("relay:subscription.disabled", sub, { reason });

/** @param at epoch ms at which the previous secret stops signing */
export const secretExpiring = (sub: Named, at: number): Notice =>
  noticeOf("relay:secret.expiring", sub, { previousSecretExpiresAt: isoTime(at) });

/** No key has this id: theirs begin with a letter or a digit. */
const WHOLE = "_relay";

/** @param keyId absent: pending deliveries of the whole relay */
export const pendingHigh = (keyId: string | undefined, pending: number, bound: number): Notice => ({
  type: "relay:pending.high",
  ...(keyId !== undefined && { keyId }),
  about: keyId ?? WHOLE,
  data: { pending, bound },
  lasting: true,
});

/** @param about the subscription, or the name of a part of the relay */
export const attentionNotice = (
  is: "needed" | "recovered",
  { state, ...data }: { readonly state: string } & Notice["data"],
  about: Named | string,
): Notice => {
  const name = typeof about === "string" ? about.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(0, 64) : about.id;
  const of =
    typeof about === "string"
      ? { data: { part: about, state, ...data } }
      : noticeOf(`relay:attention.${is}`, about, { state, ...data });
  const ends = is === "needed" ? "relay:attention.recovered" : "relay:attention.needed";
  return { ...of, type: `relay:attention.${is}`, about: `${name}-${state}`, ends };
};

/** How long before the end of an overlap it is reported: a quarter of the overlap. */
export const overlapNoticeAt = (now: number, overlapMs: number): number => now + Math.ceil(overlapMs * 0.75);
