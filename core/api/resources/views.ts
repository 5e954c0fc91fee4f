/** Turns stored records into what a client sees: times as text, and nothing secret. */
import type { Attempt, AttemptError } from "../../model/attempt.ts";
import { attemptId, type Delivery, deliveryId } from "../../model/delivery.ts";
import type { StoredClientCertificate, StoredOauth2 } from "../../model/credentials.ts";
import { deliveryCount, type RelayEvent } from "../../model/event.ts";
import type { Subscription } from "../../model/subscription.ts";
import { isoTime } from "../../lib/time.ts";
import { isOutline } from "../../records/subscription-record.ts";
import type { DeliveryDetail, EventSummary } from "../../history/history.ts";

/** Nobody knows which events a damaged one wanted. */
const basics = (sub: Subscription) => ({
  id: sub.id,
  url: sub.url,
  events: isOutline(sub) ? [] : sub.events,
  status: sub.status,
});

/** The optional fields that are set. Values of headers are never shown. */
function optional(sub: Subscription): Record<string, unknown> {
  const { description, rateLimit, timeoutMs, retry, headers, clientCertificate, oauth2, disabledReason } = sub;
  const { filter, transform, ordered, orderBy, onFailed } = sub;
  const names = headers && Object.fromEntries(Object.keys(headers).map((name) => [name, null]));
  return {
    description,
    rateLimit,
    timeoutMs,
    retry,
    headers: names,
    clientCertificate: clientCertificate && certificateView(clientCertificate),
    oauth2: oauth2 && oauth2View(oauth2),
    filter,
    transform,
    ordered,
    orderBy,
    onFailed,
    disabledReason,
  };
}

const certificateView = ({ subject, fingerprint, notAfter }: StoredClientCertificate) => ({
  subject,
  fingerprint,
  notAfter: isoTime(notAfter),
});

const oauth2View = ({ tokenUrl, clientId, scope, audience }: StoredOauth2) => ({
  tokenUrl,
  clientId,
  clientSecret: null,
  scope,
  audience,
});

/** In the order of the interface: `secret` stands before `status`. @param secret the one that the relay made */
export const createdView = (sub: Subscription, secret: string | undefined): unknown => {
  const { status, ...rest } = basics(sub);
  return { ...rest, secret, status, createdAt: isoTime(sub.createdAt), ...optional(sub) };
};
/** `secret` is never a part of it. */
export const listedView = (sub: Subscription): unknown => ({
  ...basics(sub),
  createdAt: isoTime(sub.createdAt),
  ...optional(sub),
});
export const shownView = (sub: Subscription): unknown => ({
  ...basics(sub),
  createdAt: isoTime(sub.createdAt),
  updatedAt: isoTime(sub.updatedAt),
  ...optional(sub),
});
export const updatedView = (sub: Subscription): unknown => ({
  ...basics(sub),
  updatedAt: isoTime(sub.updatedAt),
  ...optional(sub),
});
export const rotatedView = (sub: Subscription, secret: string): unknown => {
  const previous = sub.secrets[1]?.expiresAt;
  return {
    ...basics(sub),
    secret,
    updatedAt: isoTime(sub.updatedAt),
    previousSecretExpiresAt: previous === undefined ? null : isoTime(previous),
  };
};

/** Stages whose words name no address; those of others may tell a subscriber of an inner network. */
const EXPLAINED: ReadonlySet<AttemptError> = new Set(["guard", "token", "transform"]);

export function attemptView(delivery: Pick<Delivery, "ordinal" | "subscriptionId">, attempt: Attempt): object {
  const { cycle, number, startedAt, durationMs, statusCode, error, detail } = attempt;
  const { responseExcerpt, responseTruncated, transform } = attempt;
  return {
    id: attemptId(delivery.ordinal, delivery.subscriptionId, cycle, number),
    cycle,
    number,
    startedAt: isoTime(startedAt),
    durationMs,
    statusCode,
    error,
    detail: error !== undefined && EXPLAINED.has(error) ? detail : undefined,
    responseExcerpt,
    responseTruncated,
    transform,
  };
}

export function deliveryView(
  { delivery, attempts }: DeliveryDetail,
  names: ReadonlyMap<string, string>,
): Record<string, unknown> {
  const { ordinal, subscriptionId, status, reason, cycle, nextAttemptAt, order, updatedAt } = delivery;
  // Before the first attempt of one that goes in order, its time says nothing about its turn.
  const timed = nextAttemptAt !== undefined && (order === undefined || attempts.length > 0);
  return {
    id: deliveryId(ordinal, subscriptionId),
    subscriptionId,
    subscriptionName: names.get(subscriptionId),
    status,
    reason,
    cycle,
    attempts: attempts.map((attempt) => attemptView(delivery, attempt)),
    inOrder: order === undefined ? undefined : true,
    nextAttemptAt: timed ? isoTime(nextAttemptAt) : undefined,
    updatedAt: isoTime(updatedAt),
  };
}

const eventHead = ({ id, type, keyId, createdAt, acceptedAt }: RelayEvent) => ({
  id,
  type,
  keyId,
  createdAt: isoTime(createdAt),
  acceptedAt: isoTime(acceptedAt),
});

export const eventView = ({ event, status, damaged }: EventSummary): Record<string, unknown> => ({
  ...eventHead(event),
  status,
  damaged: damaged ? true : undefined,
});

/** Of the deliveries of one event, the newest attempt that has ended. */
function lastAttempt(deliveries: readonly Delivery[]): object | undefined {
  let last: { readonly subscriptionId: string; readonly attempt: Attempt } | undefined;
  for (const { subscriptionId, attempts } of deliveries) {
    const attempt = attempts.at(-1);
    if (attempt !== undefined && attempt.startedAt >= (last?.attempt.startedAt ?? 0))
      last = { subscriptionId, attempt };
  }
  if (last === undefined) return undefined;
  const { subscriptionId, attempt } = last;
  return { subscriptionId, at: isoTime(attempt.startedAt), statusCode: attempt.statusCode, error: attempt.error };
}

/** Subscriptions that a list names for each event. */
const NAMED = 3;

/** As a list shows it: where it went, and what was answered last. */
export const listedEventView = (
  summary: EventSummary,
  names: ReadonlyMap<string, string>,
): Record<string, unknown> => ({
  ...eventView(summary),
  recipients: deliveryCount(summary.event),
  subscriptionIds: summary.deliveries?.slice(0, NAMED).map(({ subscriptionId }) => subscriptionId),
  subscriptionName:
    summary.deliveries?.length === 1 ? names.get(summary.deliveries[0]?.subscriptionId ?? "") : undefined,
  lastAttempt: lastAttempt(summary.deliveries ?? []),
});
