/**
 * The live feed sends what happens on a key to all listeners on this node. Without listeners it only notes when something
 * happened, so that one who begins to listen learns whether there was something just before.
 */
import { attemptId, deliveryId } from "../model/delivery.ts";
import { deliveryCount, type RelayEvent } from "../model/event.ts";
import { isoTime } from "../lib/time.ts";
import type { Clock } from "../ports/clock.ts";
import type { AttemptObserver } from "../ports/observer.ts";

export interface FeedMessage {
  /** `again`: something has happened since the time that was named. */
  readonly event: "event" | "attempt" | "subscription" | "again";
  readonly data: Readonly<Record<string, unknown>>;
}

export interface LiveFeed {
  /**
   * Calls `send` for everything that happens on a key from now on; returns a function that stops it.
   * @param since epoch ms; the first message is `again` when something may have happened from then to now
   */
  listen(keyId: string, send: (message: FeedMessage) => void, since?: number): () => void;
  /** Notes that something happens on a key. @returns true when somebody listens to it */
  hears(keyId: string): boolean;
  /** An event was stored. Called when `hears` says so, as `attempted` is. */
  accepted(event: RelayEvent): void;
  /** An attempt was made, and its outcome stored. */
  readonly attempted: AttemptObserver;
  /** A subscription was changed, by any node. */
  changed(keyId: string, subscriptionId: string): void;
}

/** Notes of what happened last, of all keys together: enough for the time in which a page opens. */
const NOTED = 1_024;

export function createFeed({ now }: Pick<Clock, "now">): LiveFeed {
  const listeners = new Map<string, Set<(message: FeedMessage) => void>>();
  const keys = Array.from<string | undefined>({ length: NOTED });
  const times = new Float64Array(NOTED);
  let next = 0;
  const beganAt = now();

  function hears(keyId: string): boolean {
    keys[next] = keyId;
    times[next] = now();
    next = (next + 1) % NOTED;
    return listeners.has(keyId);
  }

  /** Returns true when something may have happened on a key since then; also where only younger notes are left. */
  const happened = (keyId: string, since: number): boolean =>
    since < beganAt ||
    (keys[next] !== undefined && (times[next] as number) >= since) ||
    keys.some((one, i) => one === keyId && (times[i] as number) >= since);

  function send(keyId: string, message: FeedMessage): void {
    for (const one of listeners.get(keyId) ?? []) one(message);
  }

  return {
    hears,
    listen(keyId, one, since) {
      let ofKey = listeners.get(keyId);
      if (ofKey === undefined) listeners.set(keyId, (ofKey = new Set()));
      ofKey.add(one);
      if (since !== undefined && happened(keyId, since)) one({ event: "again", data: {} });
      return () => {
        ofKey.delete(one);
        if (ofKey.size === 0 && listeners.get(keyId) === ofKey) listeners.delete(keyId);
      };
    },
    accepted(event) {
      const { id, type, keyId, createdAt, acceptedAt } = event;
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
    changed(keyId, id) {
      if (hears(keyId)) send(keyId, { event: "subscription", data: { id } });
    },
  };
}
