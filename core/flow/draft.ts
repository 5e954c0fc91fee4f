/** What is written for a new event: its record, a due line for each delivery, and what has failed before it began. */
import type { Due } from "../model/delivery.ts";
import { deliveryBody, encodeEvent, type RelayEvent } from "../model/event.ts";
import { deliveryKey, dueKey, dueValue, eventKey, failedKey } from "../model/keys.ts";
import type { Change } from "../ports/storage.ts";
import type { Fanout } from "./fanout.ts";
import { encodeDelivery, failedValue } from "./records.ts";

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

/** The rows of one commit, as they grow, and who is to be told of it. */
export interface Writing {
  readonly changes: Change[];
  readonly dues: Due[];
  readonly events: RelayEvent[];
}

export const nothingWritten = (): Writing => ({ changes: [], dues: [], events: [] });

/** Adds an event with its deliveries. As few rows as the promises allow: an active delivery is its due line alone. */
export function writeEvent({ changes, dues, events }: Writing, made: NewEvent, fan: Fanout): RelayEvent {
  const { id, type, keyId, ordinal, createdAt, acceptedAt, traceparent } = made;
  const body = deliveryBody(id, type, keyId, createdAt, made.data);
  const event: RelayEvent = {
    id,
    type,
    keyId,
    ordinal,
    createdAt,
    acceptedAt,
    subscriptionIds: fan.ids,
    traceparent,
    body,
  };
  events.push(event);
  // Made only once, however late a commit comes that seemed to be lost: by then the event may have been delivered.
  changes.push({ op: "put", key: eventKey(keyId, ordinal), value: encodeEvent(event), if: null });
  for (const { id: subscriptionId, generation } of fan.due) {
    const due: Due = { subscriptionId, keyId, ordinal, dueAt: acceptedAt, generation, cycle: 0, attempts: 0 };
    dues.push(due);
    changes.push({ op: "put", key: dueKey(due), value: dueValue(due) });
  }
  for (const { id: subscriptionId, generation } of fan.failed) {
    const reason = "subscription_disabled";
    const ended = { status: "failed", reason, cycle: 0, generation, attempts: [], updatedAt: acceptedAt } as const;
    const delivery = encodeDelivery({ keyId, eventId: id, ordinal, subscriptionId, ...ended });
    const failed = failedValue({ keyId, failedAt: acceptedAt, reason, cycle: 0 });
    changes.push({ op: "put", key: deliveryKey(subscriptionId, ordinal), value: delivery });
    changes.push({ op: "put", key: failedKey(subscriptionId, ordinal), value: failed });
  }
  return event;
}
