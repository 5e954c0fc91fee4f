/** What is written for a new event: its record, a due line for each delivery, and what has failed before it began. */
import type { Delivery, Due } from "../model/delivery.ts";
import { deliveryBody, encodeEvent, type RelayEvent, type Wide } from "../model/event.ts";
import {
  deliveryKey,
  dueKey,
  duesOf,
  dueValue,
  eventKey,
  failedKey,
  fanoutKey,
  fanoutLane,
  isFanoutLane,
  FANOUT_LINES,
  parseDue,
} from "../model/keys.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Change, Storage } from "../ports/storage.ts";
import type { Fanout } from "./fanout.ts";
import { openFanout } from "../records/fanout-row.ts";
import { encodeDelivery, failedValue } from "../records/delivery-records.ts";
import type { Snapshot } from "../records/snapshots.ts";

export interface NewEvent {
  readonly id: string;
  readonly type: string;
  readonly keyId: string;
  readonly ordinal: string;
  /** Epoch ms. */
  readonly createdAt: number;
  readonly acceptedAt: number;
  readonly traceparent?: string;
  /** The published text of `data`. */
  readonly data: string;
}

/** When the deliveries of an event are too many for its commit. */
export interface FanoutBounds {
  /** Most deliveries of one event that are written in its commit. */
  readonly perEvent: number;
  /** Most deliveries that are written in one commit of many events; what comes beyond it is written afterwards. */
  readonly perCommit: number;
  /** Fewer than this are written in the commit in any case: a marker would not be shorter. */
  readonly few: number;
  /** Most deliveries that are written afterwards in one commit. */
  readonly page: number;
}
export const FANOUT_BOUNDS: FanoutBounds = { perEvent: 256, perCommit: 2_000, few: 4, page: 250 };

/** The rows of one commit, as they grow, and who is to be told of it. */
export interface Writing {
  readonly changes: Change[];
  readonly dues: Due[];
  readonly events: RelayEvent[];
  /** What its wide events go to. */
  readonly snapshots: Set<Snapshot>;
  /** Deliveries that it writes itself. */
  written: number;
}

export const nothingWritten = (): Writing => ({
  changes: [],
  dues: [],
  events: [],
  snapshots: new Set(),
  written: 0,
});

/** Whether the deliveries of another event are to be written after its commit. */
export const isWide = ({ written }: Writing, { ids }: Fanout, bounds: FanoutBounds): boolean =>
  ids.length > bounds.perEvent || (ids.length >= bounds.few && written + ids.length > bounds.perCommit);

/**
 * Adds an event with its deliveries. As few rows as the promises allow: an active delivery is its due line alone.
 * @param snapshot given for a wide event: what it goes to
 */
export function writeEvent(writing: Writing, made: NewEvent, fan: Fanout, snapshot?: Snapshot): RelayEvent {
  const { changes, dues, events } = writing;
  const { id, type, keyId, ordinal, createdAt, acceptedAt, traceparent } = made;
  const body = deliveryBody(id, type, keyId, createdAt, made.data);
  const event: RelayEvent = {
    id,
    type,
    keyId,
    ordinal,
    createdAt,
    acceptedAt,
    subscriptionIds: snapshot === undefined ? fan.ids : [],
    ...(snapshot !== undefined && { wide: snapshot.wide }),
    traceparent,
    body,
  };
  events.push(event);
  // Made only once, however late a commit comes that seemed to be lost: by then the event may have been delivered.
  changes.push({ op: "put", key: eventKey(keyId, ordinal), value: encodeEvent(event), if: null });
  if (snapshot !== undefined) {
    writing.snapshots.add(snapshot);
    const line = fanoutLine(event, snapshot.wide, 0);
    dues.push(line);
    changes.push({ op: "put", key: fanoutKey(keyId, ordinal), value: openFanout(snapshot.wide.snapshot) });
    changes.push({ op: "put", key: dueKey(line), value: dueValue(line) });
    return event;
  }
  writing.written += fan.ids.length;
  for (const sub of fan.due) addDue(changes, dues, event, sub);
  for (const sub of fan.failed) addFailed(changes, event, sub);
  return event;
}

type Accepted = Pick<RelayEvent, "id" | "keyId" | "ordinal" | "acceptedAt">;
type To = Pick<Subscription, "id" | "generation">;

/** A delivery that is due at once. */
export function addDue(changes: Change[], dues: Due[], event: Accepted, { id, generation }: To): void {
  const { keyId, ordinal, acceptedAt } = event;
  const due: Due = { subscriptionId: id, keyId, ordinal, dueAt: acceptedAt, generation, cycle: 0, attempts: 0 };
  dues.push(due);
  changes.push({ op: "put", key: dueKey(due), value: dueValue(due) });
}

/** A delivery that has failed before it began: its subscription was disabled. */
export function addFailed(changes: Change[], event: Accepted, { id: subscriptionId, generation }: To): void {
  const { keyId, ordinal, acceptedAt } = event;
  const delivery = disabledDelivery(event, { id: subscriptionId, generation });
  const failed = failedValue({ keyId, failedAt: acceptedAt, reason: "subscription_disabled", cycle: 0 });
  changes.push({ op: "put", key: deliveryKey(subscriptionId, ordinal), value: encodeDelivery(delivery) });
  changes.push({ op: "put", key: failedKey(subscriptionId, ordinal), value: failed });
}

/** The delivery of an event that was accepted while its subscription was disabled. */
export const disabledDelivery = (event: Accepted, { id: subscriptionId, generation }: To): Delivery => ({
  keyId: event.keyId,
  eventId: event.id,
  ordinal: event.ordinal,
  subscriptionId,
  status: "failed",
  reason: "subscription_disabled",
  cycle: 0,
  generation,
  attempts: [],
  updatedAt: event.acceptedAt,
});

/**
 * The line of the due index that stands for the deliveries of a wide event that are not written yet.
 * @param written how many are
 */
export const fanoutLine = (
  { keyId, ordinal, acceptedAt }: Pick<RelayEvent, "keyId" | "ordinal" | "acceptedAt">,
  { count }: Wide,
  written: number,
): Due => ({
  subscriptionId: fanoutLane(keyId),
  keyId,
  ordinal,
  dueAt: acceptedAt,
  generation: count - written,
  cycle: 0,
  attempts: written,
});

/** Fan-outs that are looked at to tell how much is left to write. */
const MOST_FANOUTS = 1_000;

/** Deliveries of wide events, of one key or of all, that are not written yet; those of the first `MOST_FANOUTS` events. */
export async function unwritten(storage: Pick<Storage, "range">, keyId?: string): Promise<number> {
  const prefix = keyId === undefined ? FANOUT_LINES : duesOf(fanoutLane(keyId));
  const lines = await storage.range(prefix, { limit: MOST_FANOUTS });
  return lines.reduce((sum, { key, value }) => sum + parseDue(key, value).generation, 0);
}

/** How many pending deliveries a line stands for. */
export const deliveriesOfLine = (due: Due): number => (isFanoutLane(due.subscriptionId) ? due.generation : 1);
