/** The subscriptions of a key: the operations that the interface names first. */
import type { SubscriptionCache, Subscriptions } from "../../subscriptions/subscriptions.ts";
import { noSuch, Problem } from "../../model/problem.ts";
import { isoTime } from "../../lib/time.ts";
import { isLive, type Subscription } from "../../model/subscription.ts";
import type { Principal } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import { z } from "zod";
import { refuseOutline } from "../../records/subscription-record.ts";
import { type AnyOperation, operation } from "../http/operation.ts";
import { createBody, rotateBody, updateBody } from "./schemas.ts";
import {
  createdSubscription,
  listedSubscription,
  rotatedSubscription,
  shownSubscription,
  updatedSubscription,
} from "./shapes.ts";
import { createdView, listedView, rotatedView, shownView, updatedView } from "./views.ts";

const WEBHOOKS = "/api-keys/{keyId}/webhooks";
export const WEBHOOK = `${WEBHOOKS}/{subscriptionId}`;
const tag = "Subscriptions";

/**
 * Customers choose addresses of their own, not what the operator has connected: buses, files, mail.
 * @throws Problem URL_NOT_ALLOWED
 */
function checkScheme({ portal }: Principal, url: string | undefined): void {
  if (portal === undefined || url === undefined || /^https:/i.test(url)) return;
  const errors = [{ path: "url", message: "must start with https:// when it is set by a portal link" }];
  throw new Problem("URL_NOT_ALLOWED", "Use an HTTPS address, or ask the operator of the relay.", { errors });
}

/** Of one that is damaged, returns its outline. @throws Problem NOT_FOUND for one that is not there, or not any more */
export async function findSubscription(
  subscriptionCache: SubscriptionCache,
  keyId: string,
  id: string,
): Promise<Subscription> {
  const found = await subscriptionCache.get(keyId, id);
  if (!isLive(found)) throw noSuch("subscription");
  return found;
}

/** @throws Problem NOT_FOUND; DamagedRecordError for one that is damaged */
export const findReadable = async (...of: Parameters<typeof findSubscription>): Promise<Subscription> =>
  refuseOutline(await findSubscription(...of));

const sameUrl = (made: Subscription, others: readonly Subscription[]): readonly string[] =>
  others
    .filter(({ url }) => url === made.url)
    .map(({ id }) => `${id} has the same URL: an event that both want is sent to it twice`);

/** It is taken all the same: the machine's clock may be wrong, or a new one come later. */
const certificateEnded = ({ clientCertificate: shown }: Subscription, now: number): readonly string[] =>
  shown !== undefined && shown.notAfter < now
    ? [`the client certificate ended on ${isoTime(shown.notAfter).slice(0, 10)}: a receiver that looks will refuse it`]
    : [];

export function subscriptionOperations(deps: {
  readonly subscriptionCache: SubscriptionCache;
  readonly subscriptions: Subscriptions;
  readonly clock: Pick<Clock, "now">;
  /** URL schemes that a transport serves. */
  readonly schemes: readonly string[];
}): readonly AnyOperation[] {
  const { subscriptionCache, subscriptions, clock, schemes } = deps;
  return [
    operation({
      method: "POST",
      path: WEBHOOKS,
      summary: "Create a subscription",
      tag,
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
        return { data: createdView(subscription, shown), warnings, headers: { Location: location } };
      },
    }),
    operation({
      method: "GET",
      path: WEBHOOKS,
      summary: "List the subscriptions of a key",
      tag,
      portal: true,
      reply: { status: 200, data: z.array(listedSubscription) },
      async handle({ keyId }) {
        const all = [...(await subscriptionCache.of(keyId))];
        all.sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
        return { data: all.map(listedView) };
      },
    }),
    operation({
      method: "GET",
      path: WEBHOOK,
      summary: "Show a subscription",
      tag,
      portal: true,
      reply: { status: 200, data: shownSubscription },
      async handle({ keyId, params }) {
        return { data: shownView(await findSubscription(subscriptionCache, keyId, params["subscriptionId"] ?? "")) };
      },
    }),
    operation({
      method: "PATCH",
      path: WEBHOOK,
      summary: "Update a subscription; what is left out stays as it is",
      tag,
      portal: true,
      body: updateBody(schemes),
      reply: { status: 200, data: updatedSubscription, warns: true },
      problems: ["SUBSCRIPTION_LIMIT_REACHED", "URL_NOT_ALLOWED", "CONFLICT"],
      async handle({ keyId, params, body, actor, principal }) {
        checkScheme(principal, body.url);
        const updated = await subscriptions.update(keyId, params["subscriptionId"] ?? "", body, actor);
        return { data: updatedView(updated), warnings: certificateEnded(updated, clock.now()) };
      },
    }),
    operation({
      method: "DELETE",
      path: WEBHOOK,
      summary: "Delete a subscription and cancel its deliveries; nothing is sent any more once this has answered",
      tag,
      portal: true,
      reply: { status: 204 },
      problems: ["CONFLICT"],
      async handle({ keyId, params, actor }) {
        await subscriptions.remove(keyId, params["subscriptionId"] ?? "", actor);
        return {};
      },
    }),
    operation({
      method: "POST",
      path: `${WEBHOOK}/rotate-secret`,
      summary: "Give a subscription a new secret; asks for a fresh second factor",
      tag,
      body: rotateBody,
      bodyOptional: true,
      stepUp: "secret.rotated",
      reply: { status: 200, data: rotatedSubscription },
      problems: ["STEP_UP_REQUIRED", "CONFLICT"],
      async handle({ keyId, params, body, actor }) {
        const { subscription, secret } = await subscriptions.rotate(
          keyId,
          params["subscriptionId"] ?? "",
          body.overlapSeconds * 1_000,
          actor,
        );
        return { data: rotatedView(subscription, secret) };
      },
    }),
  ];
}
