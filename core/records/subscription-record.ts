/** Reads the record of a subscription. One that is damaged is shown as an outline, so that it stops no other. */
import { DamagedRecordError } from "../model/errors.ts";
import { parseSubscriptionKey, subscriptionKey } from "../model/keys.ts";
import type { Subscription } from "../model/subscription.ts";

/** Called with each damaged record that is met. */
export type Told = (error: DamagedRecordError) => void;

/** @throws DamagedRecordError when the text is not the record of a subscription, or that of another key */
export function decodeSubscription(text: string, key: string): Subscription {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch (cause) {
    throw new DamagedRecordError("subscription", "unreadable", key, { cause });
  }
  if (!isSubscription(read)) throw new DamagedRecordError("subscription", "unreadable", key);
  if (subscriptionKey(read.keyId, read.id) !== key) throw new DamagedRecordError("subscription", "misplaced", key);
  return read;
}

/** Looks at what everything else relies on: a part that is read only where it is used fails there. */
function isSubscription(read: unknown): read is Subscription {
  if (typeof read !== "object" || read === null) return false;
  const { id, keyId, url, events, status, secrets, createdAt, updatedAt, generation, deletedAt } = read as Partial<
    Record<keyof Subscription, unknown>
  >;
  return (
    [id, keyId, url].every((text) => typeof text === "string") &&
    (status === "active" || status === "disabled") &&
    Array.isArray(events) &&
    events.every((name) => typeof name === "string") &&
    Array.isArray(secrets) &&
    secrets.every((secret) => typeof secret === "object" && secret !== null) &&
    [createdAt, updatedAt, generation, deletedAt ?? 0].every(Number.isFinite)
  );
}

/**
 * Decodes a subscription, or outlines it when its record is damaged.
 * @param told is called then
 */
export function readSubscription(text: string, key: string, told?: Told): Subscription {
  try {
    return decodeSubscription(text, key);
  } catch (error) {
    if (!(error instanceof DamagedRecordError)) throw error;
    told?.(error);
    return outlineOf(key);
  }
}

/**
 * What stands for a damaged subscription. Nobody knows which events it wanted, so it stands for all of them: each gets a
 * delivery to it that has failed, which can be found and made good. Never send to it, and never store it.
 */
function outlineOf(key: string): Subscription {
  const { keyId, id } = parseSubscriptionKey(key);
  const unknown = { url: "", createdAt: 0, updatedAt: 0, generation: 0, secrets: [] };
  const shown = { status: "disabled", disabledReason: "record_damaged", description: "a damaged record" } as const;
  return { id, keyId, events: ["*"], ...shown, ...unknown };
}

/** Whether it is only the outline of one whose record is damaged. */
export const isOutline = (sub: Pick<Subscription, "disabledReason">): boolean =>
  sub.disabledReason === "record_damaged";

/** @throws DamagedRecordError when it is only an outline: nothing can be made of it but its end */
export function refuseOutline(sub: Subscription): Subscription {
  if (isOutline(sub)) throw new DamagedRecordError("subscription", "unreadable", subscriptionKey(sub.keyId, sub.id));
  return sub;
}
