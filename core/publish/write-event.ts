/** Builds the rows of a new event: its record, due lines, and failed records for disabled subscriptions. */
import { type Due, sequenceOf } from "../model/delivery.ts";
import { deliveryBody, type RelayEvent } from "../model/event.ts";
import type { EventHeaders } from "../model/header-names.ts";
import { EVENT, FANOUT } from "../model/schema.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Change } from "../ports/storage.ts";
import { putDue } from "../records/delivery-records.ts";
import { addDue, addFailed, fanoutLine } from "../records/new-delivery.ts";
import type { Fanout, Snapshot } from "../records/snapshots.ts";

export interface NewEvent {
  readonly id: string;
  readonly type: string;
  readonly keyId: string;
  readonly ordinal: string;
  /** Epoch ms. */
  readonly createdAt: number;
  readonly acceptedAt: number;
  readonly traceparent?: string;
  readonly headers?: EventHeaders | undefined;
  /** The published text of `data`. */
  readonly data: string;
}

/** Bounds beyond which an event has too many deliveries for its commit. */
export interface FanoutBounds {
  /** Most deliveries of one event that its commit writes. */
  readonly perEvent: number;
  /** Most deliveries in one commit of many events; the rest are written later. */
  readonly perCommit: number;
  /** Fewer than this are always written in the commit, because a marker would not be shorter. */
  readonly few: number;
  /** Most deliveries per commit when they are written later. */
  readonly page: number;
}
export const FANOUT_BOUNDS: FanoutBounds = { perEvent: 256, perCommit: 2_000, few: 4, page: 250 };

/** The rows of one commit while it is being built, and what to announce after it. */
export interface Writing {
  readonly changes: Change[];
  readonly dues: Due[];
  readonly events: RelayEvent[];
  /** The snapshots of its wide events. */
  readonly snapshots: Set<Snapshot>;
  /** Subscriptions that get none of an event because of their filters. */
  readonly filtered: OfKey[];
  /** Those that are disabled: their deliveries of an event have failed from the start. Absent when there are none. */
  failed?: OfKey[];
  /** Deliveries that go in order, without their places. Absent when there are none. */
  ordered?: OrderedDelivery[];
  /** Lines of those whose turn has not come. */
  waiting?: readonly Due[];
  /** How many deliveries the commit writes itself. */
  written: number;
}

export interface OrderedDelivery {
  readonly event: RelayEvent;
  readonly sub: Subscription;
  readonly sequence: number;
}

/** Some subscriptions of a key. */
interface OfKey {
  readonly keyId: string;
  readonly subscriptionIds: readonly string[];
}

export const nothingWritten = (): Writing => ({
  changes: [],
  dues: [],
  events: [],
  snapshots: new Set(),
  filtered: [],
  written: 0,
});

/** Returns true when the deliveries of one more event are written after the commit. */
export const isWide = ({ written }: Writing, { ids }: Fanout, bounds: FanoutBounds): boolean =>
  ids.length > bounds.perEvent || (ids.length >= bounds.few && written + ids.length > bounds.perCommit);

/**
 * Adds an event with its deliveries, in as few rows as the promises allow: an active delivery is only a due line.
 * @param snapshot given for a wide event: the list that it goes to
 */
export function writeEvent(writing: Writing, made: NewEvent, fan: Fanout, snapshot?: Snapshot): RelayEvent {
  const { changes, dues, events } = writing;
  const { id, type, keyId, ordinal, createdAt, acceptedAt, traceparent, headers } = made;
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
    ...(headers !== undefined && { headers }),
    body,
  };
  events.push(event);
  if (fan.ordered !== undefined) {
    const waiting = (writing.ordered ??= []);
    // Read once, and only when one of them orders by it.
    let read: unknown;
    const data = (): unknown => (read === undefined ? (read = JSON.parse(made.data) as unknown) : read);
    for (const sub of fan.ordered) waiting.push({ event, sub, sequence: sequenceOf(sub, type, data) });
  }
  // Created only once, even if a commit that seemed lost arrives late: by then the event may have been delivered.
  changes.push(EVENT.put({ keyId, ordinal }, event, null));
  if (snapshot !== undefined) {
    writing.snapshots.add(snapshot);
    const line = fanoutLine(event, snapshot.wide, 0);
    dues.push(line);
    changes.push(FANOUT.put({ keyId, ordinal }, { snapshot: snapshot.wide.snapshot, state: "open" }));
    changes.push(putDue(line));
    return event;
  }
  writing.written += fan.ids.length;
  for (const sub of fan.due) addDue(changes, dues, event, sub);
  for (const sub of fan.failed) addFailed(changes, event, sub);
  if (fan.failed.length > 0) (writing.failed ??= []).push({ keyId, subscriptionIds: fan.failed.map((sub) => sub.id) });
  return event;
}
