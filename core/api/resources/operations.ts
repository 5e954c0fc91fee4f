/** Puts together every operation of the management API. */
import { isAttemptPlace, type AttemptSearch } from "../../history/attempt-search.ts";
import type { AttemptHistory } from "../../history/attempts.ts";
import type { History } from "../../history/history.ts";
import type { KeyErasure } from "../../retention/erase-key.ts";
import type { EventErasure } from "../../retention/erase-event.ts";
import type { PendingDeliveries } from "../../replay/pending.ts";
import type { Replay } from "../../replay/replay.ts";
import type { SubscriptionCache, Subscriptions } from "../../subscriptions/subscriptions.ts";
import type { EventTypes } from "../../model/event-type.ts";
import type { Auth } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Keys, Log } from "../../ports/plugin.ts";
import type { Storage } from "../../ports/storage.ts";
import { attemptOperations } from "./attempts.ts";
import { auditOperations } from "./audit.ts";
import { backupOperations } from "./backup.ts";
import { catalogueOperations } from "./catalogue.ts";
import { createCursors, isCount } from "../http/cursor.ts";
import { deliveryOperations } from "./deliveries.ts";
import type { AnyOperation } from "../http/operation.ts";
import { eventOperations } from "./events.ts";
import { statsOperations, type StatsSource } from "./stats.ts";
import { testEventOperations, type TestEventSender } from "./test-event.ts";
import { transformTestOperations, type TransformPreview } from "./transform-test.ts";
import type { Receivers } from "./expected-receivers.ts";
import { pendingOperations } from "./pending.ts";
import { type PublishAs, publishOperations } from "./publish.ts";
import { selectedOperations } from "./selected-deliveries.ts";
import { type RekeyAll, rekeyOperations } from "./rekey.ts";
import { orderOperations } from "./order.ts";
import { portalOperations, type PortalOffer } from "./portal-links.ts";
import { filterTestOperations } from "./filter-test.ts";
import { keyOperations } from "./erase-key.ts";
import { type Feed, liveFeedOperations } from "./live-feed.ts";
import { subscriptionOperations } from "./subscriptions.ts";

export interface OperationsDeps extends Receivers {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly keys: Pick<Keys, "seal" | "open">;
  readonly auth: Auth;
  readonly log?: Pick<Log, "error"> | undefined;
  readonly subscriptionCache: SubscriptionCache;
  readonly subscriptions: Subscriptions;
  readonly history: History;
  readonly attempts: AttemptHistory;
  readonly searchAttempts: AttemptSearch;
  readonly replay: Replay;
  readonly pending: PendingDeliveries;
  /** Publishes on behalf of a manager; without it there is no such operation. */
  readonly publish?: PublishAs | undefined;
  /** Erases one event; see `EventErasure`. */
  readonly eraseEvent: EventErasure["erase"];
  /** Erases a key; see `KeyErasure`. */
  readonly eraseKey: KeyErasure["erase"];
  /** URL schemes that a transport serves. */
  readonly schemes: readonly string[];
  /** The catalogue of event names as it is now. */
  readonly events?: (() => readonly string[] | undefined) | undefined;
  /** What the config says of the event types now, by name. */
  readonly types?: (() => EventTypes | undefined) | undefined;
  /** Names of the transforms that the config has now. */
  readonly transforms?: (() => readonly string[]) | undefined;
  /** Sends one test event; without it there is no such operation. */
  readonly ping?: TestEventSender | undefined;
  /** Runs a transform on an event; without it there is no such operation. */
  readonly preview?: TransformPreview | undefined;
  /** The live feed; without it there is no stream. */
  readonly feed?: Feed | undefined;
  readonly figures?: StatsSource | undefined;
  /** Seals everything with the present master key; without it there is no such operation. */
  readonly rekey?: RekeyAll | undefined;
  /** Links to the portal; without it there are none. */
  readonly portal?: PortalOffer | undefined;
}

export function createOperations(deps: OperationsDeps): readonly AnyOperation[] {
  const shared = {
    ...deps,
    cursors: createCursors(deps.keys),
    places: createCursors(deps.keys, isCount),
    attemptPlaces: createCursors(deps.keys, isAttemptPlace),
  };
  return [
    ...subscriptionOperations(shared),
    ...testEventOperations(shared),
    ...filterTestOperations(shared),
    ...transformTestOperations(shared),
    ...eventOperations(shared),
    ...publishOperations(shared),
    ...deliveryOperations(shared),
    ...orderOperations(shared),
    ...attemptOperations(shared),
    ...pendingOperations(shared),
    ...selectedOperations(shared),
    ...catalogueOperations(shared),
    ...keyOperations(shared),
    ...portalOperations(shared),
    ...auditOperations(shared),
    ...statsOperations(shared),
    ...rekeyOperations(shared),
    ...liveFeedOperations(shared),
    ...backupOperations(shared),
  ];
}
