/**
 * What this node's parts do when a subscription changes, its receiver asks for a pause or an event is erased, on this node
 * or on another one.
 */
import { ALL_EVENTS, type ClusterActions } from "../../subscriptions/cluster-messages.ts";
import type { DeliveryPath } from "./parts.ts";

/** How long a rotation waits for attempts that the old secret alone has signed, ms. */
const ROTATION_MS = 2_000;

type Affected = Pick<
  DeliveryPath,
  | "eventCache"
  | "signer"
  | "inFlight"
  | "dispatcher"
  | "testEvent"
  | "transports"
  | "retryAfter"
  | "circuitBreaker"
  | "log"
>;

export const clusterActions = ({
  eventCache,
  signer,
  inFlight,
  dispatcher,
  testEvent,
  transports,
  retryAfter,
  circuitBreaker,
  log,
}: Affected): ClusterActions => ({
  quiet(id) {
    signer.rotated(id);
    return inFlight.drain(id, ROTATION_MS);
  },
  async stop(id) {
    await Promise.all([dispatcher.abort(id), testEvent.abort(id)]);
    for (const transport of transports) transport.forget?.(id);
    retryAfter.forget(id);
    // The subscription is deleted even when this cannot be stored now.
    await circuitBreaker.forget(id).catch((error: unknown) =>
      log.warn("the stored health of a deleted subscription was not removed", {
        subscriptionId: id,
        error: String(error),
      }),
    );
  },
  async revive(id) {
    retryAfter.forget(id);
    await circuitBreaker.forget(id);
  },
  probe: (id) => circuitBreaker.probe(id),
  pause: async (id, ms) => retryAfter.note(id, ms),
  async erased(ordinal) {
    eventCache.forget(ordinal === ALL_EVENTS ? undefined : ordinal);
  },
});
