/** The subscriptions of a key: how they are shown and found, and the operations that the interface names first. */
import { z } from "zod";
import { isoTime } from "../../lib/time.ts";
import { noSuch, Problem } from "../../model/problem.ts";
import { clearUrl } from "../../model/credentials.ts";
import { isLive, type Subscription } from "../../model/subscription.ts";
import type { Principal } from "../../ports/auth.ts";
import { isOutline, refuseOutline } from "../../records/subscription-record.ts";
import type { SubscriptionCache } from "../../subscriptions/subscriptions.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import type { ResourceDeps } from "./deps.ts";
import {
  createBody,
  createdSubscription,
  listedSubscription,
  rotateBody,
  rotatedSubscription,
  shownSubscription,
  updateBody,
  updatedSubscription,
} from "./subscription-schema.ts";

const operation = operationsOf("Subscriptions");

const WEBHOOKS = "/api-keys/{keyId}/webhooks";
export const WEBHOOK = `${WEBHOOKS}/{subscriptionId}` as const;

export const subscriptionOperations = (deps: ResourceDeps): readonly AnyOperation[] => [
  create(deps),
  list(deps),
  show(deps),
  update(deps),
  remove(deps),
  rotate(deps),
];

/** Returns a subscription with the URL that the caller may see: one that is sealed is for those who may manage. */
export function seenBy({ access }: Principal, { keys }: Pick<ResourceDeps, "keys">, sub: Subscription): Subscription {
  if (sub.sealedUrl === undefined || access === "read") return sub;
  try {
    return { ...sub, url: clearUrl(keys, sub) };
  } catch {
    // No key opens it: its attempts say so, and the list still stands.
    return sub;
  }
}

const create = ({ subscriptionCache, subscriptions, clock, schemes, keys }: ResourceDeps) =>
  operation(`POST ${WEBHOOKS}`, {
    id: "createSubscription",
    summary: "Create a subscription",
    portal: true,
    body: createBody(schemes),
    reply: { status: 201, data: createdSubscription, warns: true },
    problems: ["SUBSCRIPTION_LIMIT_REACHED", "URL_NOT_ALLOWED", "CONFLICT"],
    async handle({ keyId, body, actor, principal }) {
      checkScheme(principal, body.url);
      // Read before: once the subscription is made, nothing may keep its secret from the client.
      const others = await subscriptionCache.of(keyId);
      const { subscription, secret } = await subscriptions.create(keyId, body, actor);
      const location = `/api-keys/${encodeURIComponent(keyId)}/webhooks/${subscription.id}`;
      const warnings = [...sameUrl(subscription, others), ...certificateEnded(subscription, clock.now())];
      // A secret that the caller gave is known there: it is not sent over the wire, and into a log behind it, again.
      const shown = typeof body.secret === "string" ? undefined : secret;
      return {
        data: createdView(seenBy(principal, { keys }, subscription), shown),
        warnings,
        headers: { Location: location },
      };
    },
  });

const list = ({ subscriptionCache, keys }: ResourceDeps) =>
  operation(`GET ${WEBHOOKS}`, {
    id: "listSubscriptions",
    summary: "List the subscriptions of a key",
    portal: true,
    reply: { status: 200, data: z.array(listedSubscription) },
    async handle({ keyId, principal }) {
      const all = [...(await subscriptionCache.of(keyId))];
      all.sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
      return { data: all.map((sub) => listedView(seenBy(principal, { keys }, sub))) };
    },
  });

const show = ({ subscriptionCache, keys }: ResourceDeps) =>
  operation(`GET ${WEBHOOK}`, {
    id: "getSubscription",
    summary: "Show a subscription",
    portal: true,
    reply: { status: 200, data: shownSubscription },
    async handle({ keyId, subscriptionId, principal }) {
      const found = seenBy(principal, { keys }, await findSubscription(subscriptionCache, keyId, subscriptionId));
      return { data: { ...basics(found), ...createdAt(found), ...updatedAt(found), ...optional(found) } };
    },
  });

const update = ({ subscriptions, clock, schemes, keys }: ResourceDeps) =>
  operation(`PATCH ${WEBHOOK}`, {
    id: "updateSubscription",
    summary: "Update a subscription; what is left out stays as it is",
    portal: true,
    body: updateBody(schemes),
    reply: { status: 200, data: updatedSubscription, warns: true },
    problems: ["SUBSCRIPTION_LIMIT_REACHED", "URL_NOT_ALLOWED", "CONFLICT"],
    async handle({ keyId, subscriptionId, body, actor, principal }) {
      checkScheme(principal, body.url);
      const updated = seenBy(principal, { keys }, await subscriptions.update(keyId, subscriptionId, body, actor));
      const warnings = certificateEnded(updated, clock.now());
      return { data: { ...basics(updated), ...updatedAt(updated), ...optional(updated) }, warnings };
    },
  });

const remove = ({ subscriptions }: ResourceDeps) =>
  operation(`DELETE ${WEBHOOK}`, {
    id: "deleteSubscription",
    summary: "Delete a subscription and cancel its deliveries; nothing is sent any more once this has answered",
    portal: true,
    reply: { status: 204 },
    problems: ["CONFLICT"],
    handle: ({ keyId, subscriptionId, actor }) => subscriptions.remove(keyId, subscriptionId, actor),
  });

const rotate = ({ subscriptions, keys }: ResourceDeps) =>
  operation(`POST ${WEBHOOK}/rotate-secret`, {
    id: "rotateSecret",
    summary: "Give a subscription a new secret; asks for a fresh second factor",
    body: rotateBody,
    bodyOptional: true,
    stepUp: "secret.rotated",
    reply: { status: 200, data: rotatedSubscription },
    problems: ["STEP_UP_REQUIRED", "CONFLICT"],
    async handle({ keyId, subscriptionId, body, actor, principal }) {
      const overlapMs = body.overlapSeconds * 1_000;
      const { subscription, secret } = await subscriptions.rotate(keyId, subscriptionId, overlapMs, actor);
      const previous = subscription.secrets[1]?.expiresAt;
      const previousSecretExpiresAt = previous === undefined ? null : isoTime(previous);
      const seen = seenBy(principal, { keys }, subscription);
      return { data: { ...basics(seen), secret, ...updatedAt(subscription), previousSecretExpiresAt } };
    },
  });

/**
 * Customers choose addresses of their own, not what the operator has connected: buses, files, mail.
 * @throws Problem URL_NOT_ALLOWED
 */
function checkScheme({ portal }: Principal, url: string | undefined): void {
  if (portal === undefined || url === undefined || /^https:/i.test(url)) return;
  const errors = [{ path: "url", message: "must start with https:// when it is set by a portal link" }];
  throw new Problem("URL_NOT_ALLOWED", "Use an HTTPS address, or ask the operator of the relay.", { errors });
}

const sameUrl = (made: Subscription, others: readonly Subscription[]): readonly string[] =>
  others
    .filter(({ url }) => url === made.url)
    .map(({ id }) => `${id} has the same URL: an event that both want is sent to it twice`);

/** It is taken all the same: the machine's clock may be wrong, or a new one come later. */
const certificateEnded = ({ clientCertificate: shown }: Subscription, now: number): readonly string[] =>
  shown !== undefined && shown.notAfter < now
    ? [`the client certificate ended on ${isoTime(shown.notAfter).slice(0, 10)}: a receiver that looks will refuse it`]
    : [];

/** Of one that is damaged, returns its outline. @throws Problem NOT_FOUND for one that is not there, or not any more */
export async function findSubscription(cache: SubscriptionCache, keyId: string, id: string): Promise<Subscription> {
  const found = await cache.get(keyId, id);
  if (!isLive(found)) throw noSuch("subscription");
  return found;
}

/** @throws Problem NOT_FOUND; DamagedRecordError for one that is damaged */
export const findReadable = async (...of: Parameters<typeof findSubscription>): Promise<Subscription> =>
  refuseOutline(await findSubscription(...of));

/** Returns the name of each that is known, also of a deleted one: its description, or else the host that it sends to. */
export async function namesOf(
  cache: Pick<SubscriptionCache, "get">,
  keyId: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  for (const id of new Set(ids)) {
    const found = await cache.get(keyId, id);
    if (found === undefined) continue;
    const { description, url } = found;
    names.set(id, description ?? (URL.canParse(url) ? new URL(url).host : url));
  }
  return names;
}

/** Nobody knows which events a damaged one wanted. */
const basics = (sub: Subscription) => ({
  id: sub.id,
  url: sub.url,
  events: isOutline(sub) ? [] : sub.events,
  status: sub.status,
});
const createdAt = (sub: Subscription) => ({ createdAt: isoTime(sub.createdAt) });
const updatedAt = (sub: Subscription) => ({ updatedAt: isoTime(sub.updatedAt) });

/** Returns the optional fields that are set. Values of headers are never shown. */
function optional(sub: Subscription): Record<string, unknown> {
  const { headers, clientCertificate: certificate, oauth2 } = sub;
  return {
    description: sub.description,
    rateLimit: sub.rateLimit,
    timeoutMs: sub.timeoutMs,
    retry: sub.retry,
    headers: headers && Object.fromEntries(Object.keys(headers).map((name) => [name, null])),
    clientCertificate: certificate && {
      subject: certificate.subject,
      fingerprint: certificate.fingerprint,
      notAfter: isoTime(certificate.notAfter),
    },
    oauth2: oauth2 && {
      tokenUrl: oauth2.tokenUrl,
      clientId: oauth2.clientId,
      clientSecret: null,
      scope: oauth2.scope,
      audience: oauth2.audience,
    },
    filter: sub.filter,
    transform: sub.transform,
    ordered: sub.ordered,
    orderBy: sub.orderBy,
    onFailed: sub.onFailed,
    disabledReason: sub.disabledReason,
  };
}

/** In the order of the interface: `secret` comes before `status`. @param secret the one that the relay made */
function createdView(sub: Subscription, secret: string | undefined): unknown {
  const { status, ...rest } = basics(sub);
  return { ...rest, secret, status, ...createdAt(sub), ...optional(sub) };
}
/** `secret` is never a part of it. */
export const listedView = (sub: Subscription): object => ({ ...basics(sub), ...createdAt(sub), ...optional(sub) });
