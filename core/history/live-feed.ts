/** The live feed sends what happens on a key to all listeners on this node. Without listeners it costs one look-up. */
import { attemptId, deliveryId } from "../model/delivery.ts";
import { deliveryCount, type RelayEvent } from "../model/event.ts";
import { isoTime } from "../model/time.ts";
import type { AttemptObserver } from "../ports/observer.ts";

export interface FeedMessage {
  readonly event: "event" | "attempt" | "subscription";
  readonly data: Readonly<Record<string, unknown>>;
}

export interface LiveFeed {
  /** Calls `tell` for everything that happens on a key from now on; returns a function that stops it. */
  listen(keyId: string, send: (message: FeedMessage) => void): () => void;
  /** An event was stored. */
  accepted(event: RelayEvent): void;
  /** An attempt was made, and its outcome stored. */
  readonly attempted: AttemptObserver;
  /** A subscription was changed, by any node. */
  changed(keyId: string, subscriptionId: string): void;
}

export function createFeed(): LiveFeed {
  const listeners = new Map<string, Set<(message: FeedMessage) => void>>();

  function send(keyId: string, message: FeedMessage): void {
    for (const one of listeners.get(keyId) ?? []) one(message);
  }

  return {
    listen(keyId, one) {
      let ofKey = listeners.get(keyId);
      if (ofKey === undefined) listeners.set(keyId, (ofKey = new Set()));
      ofKey.add(one);
      return () => {
        ofKey.delete(one);
        if (ofKey.size === 0 && listeners.get(keyId) === ofKey) listeners.delete(keyId);
      };
    },
    accepted(event) {
      const { id, type, keyId, createdAt, acceptedAt } = event;
      if (!listeners.has(keyId)) return;
      send(keyId, {
        event: "event",
        data: {
          id,
          type,
          keyId,
          createdAt: isoTime(createdAt),
          acceptedAt: isoTime(acceptedAt),
          deliveries: deliveryCount(event),
        },
      });
    },
    attempted(sub, { eventId, ordinal, status, reason, nextAttemptAt }, made) {
      if (!listeners.has(sub.keyId)) return;
      send(sub.keyId, {
        event: "attempt",
        data: {
          id: attemptId(ordinal, sub.id, made.cycle, made.number),
          deliveryId: deliveryId(ordinal, sub.id),
          eventId,
          subscriptionId: sub.id,
          cycle: made.cycle,
          number: made.number,
          startedAt: isoTime(made.startedAt),
          durationMs: made.durationMs,
          statusCode: made.statusCode,
          error: made.error,
          status,
          reason,
          nextAttemptAt: nextAttemptAt === undefined ? undefined : isoTime(nextAttemptAt),
        },
      });
    },
    changed: (keyId, id) => send(keyId, { event: "subscription", data: { id } }),
  };
}
