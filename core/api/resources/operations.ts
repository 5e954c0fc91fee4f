/** Puts together every operation of the management API. */
import { isAttemptPlace } from "../../history/attempt-search.ts";
import type { AnyOperation } from "../http/operation.ts";
import { attemptOperations } from "./attempts.ts";
import { attentionOperations } from "./attention.ts";
import { auditOperations } from "./audit.ts";
import { catalogueOperations } from "./catalogue.ts";
import { deliveryOperations } from "./deliveries.ts";
import { actionOperations } from "./delivery-actions.ts";
import type { OperationsDeps } from "./deps.ts";
import { eventOperations } from "./events.ts";
import { createCursors, isCount } from "./lists.ts";
import { liveFeedOperations } from "./live-feed.ts";
import { orderOperations } from "./order.ts";
import { portalOperations } from "./portal-links.ts";
import { backupOperations, relayOperations } from "./relay.ts";
import { statsOperations } from "./stats.ts";
import { testOperations } from "./subscription-tests.ts";
import { subscriptionOperations } from "./subscriptions.ts";

/** In the order in which the OpenAPI document lists them. */
const RESOURCES = [
  subscriptionOperations,
  testOperations,
  eventOperations,
  deliveryOperations,
  orderOperations,
  attemptOperations,
  actionOperations,
  catalogueOperations,
  portalOperations,
  auditOperations,
  statsOperations,
  attentionOperations,
  relayOperations,
  liveFeedOperations,
  backupOperations,
];

export function createOperations(given: OperationsDeps): readonly AnyOperation[] {
  const deps = {
    ...given,
    cursors: createCursors(given.keys),
    places: createCursors(given.keys, isCount),
    attemptPlaces: createCursors(given.keys, isAttemptPlace),
  };
  return RESOURCES.flatMap((operationsOf) => operationsOf(deps));
}
