/** Every operation of the management API, from the rooms that they use. */
import type { AttemptHistory } from "../flow/attempt-history.ts";
import type { History } from "../flow/history.ts";
import type { Replay } from "../flow/replay.ts";
import type { Directory, Subscriptions } from "../flow/subscriptions.ts";
import { ordinals } from "../model/ids.ts";
import type { Auth } from "../ports/auth.ts";
import type { Clock } from "../ports/clock.ts";
import type { Keys } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";
import { attemptOperations } from "./attempts.ts";
import { auditOperations } from "./audit.ts";
import { backupOperations } from "./backup.ts";
import { catalogueOperations } from "./catalogue.ts";
import { createCursors, isCount } from "./cursor.ts";
import { deliveryOperations } from "./deliveries.ts";
import type { AnyOperation } from "./endpoint.ts";
import { eventOperations } from "./events.ts";
import { figureOperations } from "./figures.ts";
import type { Figures } from "./figures.ts";
import { pingOperations } from "./ping.ts";
import type { Ping } from "./ping.ts";
import type { Receivers } from "./receivers.ts";
import { rekeyOperations } from "./rekey.ts";
import type { RekeyAll } from "./rekey.ts";
import { streamOperations } from "./stream.ts";
import type { Feed } from "./stream.ts";
import { webhookOperations } from "./webhooks.ts";

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
