/** Every operation of the management API, from the rooms that they use. */
import type { AttemptHistory } from "../../history/attempts.ts";
import type { History } from "../../history/events.ts";
import type { Replay } from "../../replay/replay.ts";
import type { Directory, Subscriptions } from "../../subscriptions/subscriptions.ts";
import { ordinals } from "../../model/ids.ts";
import type { Auth } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Keys } from "../../ports/plugin.ts";
import type { Storage } from "../../ports/storage.ts";
import { attemptOperations } from "./attempts.ts";
import { auditOperations } from "./audit.ts";
import { backupOperations } from "./backup.ts";
import { catalogueOperations } from "./catalogue.ts";
import { createCursors, isCount } from "../http/cursor.ts";
import { deliveryOperations } from "./deliveries.ts";
import type { AnyOperation } from "../http/operation.ts";
import { eventOperations } from "./events.ts";
import { figureOperations } from "./stats.ts";
import type { Figures } from "./stats.ts";
import { pingOperations } from "./test-event.ts";
import type { Ping } from "./test-event.ts";
import type { Receivers } from "./expected-receivers.ts";
import { rekeyOperations } from "./rekey.ts";
import type { RekeyAll } from "./rekey.ts";
import { streamOperations } from "./live-feed.ts";
import type { Feed } from "./live-feed.ts";
import { webhookOperations } from "./subscriptions.ts";

export interface OperationsDeps extends Receivers {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly keys: Pick<Keys, "seal" | "open">;
  readonly auth: Auth;
  readonly directory: Directory;
  readonly subscriptions: Subscriptions;
  readonly history: History;
  readonly attempts: AttemptHistory;
  readonly replay: Replay;
  /** URL schemes that a transport serves. */
  readonly schemes: readonly string[];
  /** The catalogue of event names as it is now. */
  readonly events?: (() => readonly string[] | undefined) | undefined;
  /** Sends one test event; without it there is no such operation. */
  readonly ping?: Ping | undefined;
  /** What happens, as it happens; without it there is no stream. */
  readonly feed?: Feed | undefined;
  readonly figures?: Figures | undefined;
  /** Seals everything anew; without it there is no such operation. */
  readonly rekey?: RekeyAll | undefined;
}

export function createOperations(deps: OperationsDeps): readonly AnyOperation[] {
  const shared = {
    ...deps,
    cursors: createCursors(deps.keys),
    places: createCursors(deps.keys, isCount),
    ordinal: ordinals(deps.clock.now),
  };
  return [
    ...webhookOperations(shared),
    ...pingOperations(shared),
    ...eventOperations(shared),
    ...deliveryOperations(shared),
    ...attemptOperations(shared),
    ...catalogueOperations(shared),
    ...auditOperations(shared),
    ...figureOperations(shared),
    ...rekeyOperations(shared),
    ...streamOperations(shared),
    ...backupOperations(shared),
  ];
}
