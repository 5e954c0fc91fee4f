/** What a change of a subscription starts on this node, and how it is asked of the other nodes. */
import type { ClusterActions } from "../../subscriptions/cluster-messages.ts";
import * as path from "./delivery-path.ts";
import type { Get } from "./container.ts";

/** How long a rotation waits for attempts that the old secret alone has signed, ms. */
const ROTATION_MS = 2_000;

/** What this node does of its own when a subscription changes, here or on another node. */
export const clusterActions = (get: Get): ClusterActions => ({
  quiet: (id) => get(path.IN_FLIGHT).quiet(id, ROTATION_MS),
  async stop(id) {
    await Promise.all([get(path.DISPATCHER).abort(id), get(path.TEST_EVENT).abort(id)]);
    for (const transport of get(path.TRANSPORTS)) transport.forget?.(id);
    get(path.RETRY_AFTER).forget(id);
    // It is deleted all the same when this cannot be stored now.
    await get(path.CIRCUIT_BREAKER)
      .forget(id)
      .catch((error: unknown) =>
        get(path.LOG).warn("health was not forgotten", { subscriptionId: id, error: String(error) }),
      );
  },
  async revive(id) {
    get(path.RETRY_AFTER).forget(id);
    await get(path.CIRCUIT_BREAKER).forget(id);
  },
  probe: (id) => get(path.CIRCUIT_BREAKER).probe(id),
});

/** Asked of the others and done here at once; resolves when both are done. */
export const both =
  (others: (id: string) => Promise<void>, here: (id: string) => Promise<unknown>) =>
  async (id: string): Promise<void> => {
    await Promise.all([others(id), here(id)]);
  };
