/** Reads the record of a subscription. One that is damaged is shown as an outline, so that it stops no other. */
import { DamagedRecordError } from "../model/errors.ts";
import { SUBSCRIPTION } from "../model/schema.ts";
import type { Subscription } from "../model/subscription.ts";

/** Called with each damaged record that is met. */
export type OnDamage = (error: DamagedRecordError) => void;

/** Returns true when both are the same version of a record: mostly one object, unless it was read twice. */
export const isSameVersion = (one: Subscription | undefined, other: Subscription | undefined): boolean =>
  one === other || (one !== undefined && other !== undefined && SUBSCRIPTION.write(one) === SUBSCRIPTION.write(other));

/**
 * Decodes a subscription, or outlines it when its record is damaged.
 * @param onDamage called when it is damaged
 */
export function readSubscription(text: string, key: string, onDamage?: OnDamage): Subscription {
  try {
    return SUBSCRIPTION.orThrow(text, key);
  } catch (error) {
    if (!(error instanceof DamagedRecordError)) throw error;
    onDamage?.(error);
    return outlineOf(key);
  }
}

/**
 * Returns what replaces a damaged subscription. Nobody knows which events it wanted, so it wants all of them: each gets a
 * delivery to it that has failed, which can be found and made good. Never send to it, and never store it.
 */
function outlineOf(key: string): Subscription {
  const { keyId, id } = SUBSCRIPTION.id(key);
  const unknown = { url: "", createdAt: 0, updatedAt: 0, generation: 0, secrets: [] };
  const shown = { status: "disabled", disabledReason: "record_damaged", description: "a damaged record" } as const;
  return { id, keyId, events: ["*"], ...shown, ...unknown };
}

/** Returns true when it is only the outline of one whose record is damaged. */
export const isOutline = (sub: Pick<Subscription, "disabledReason">): boolean =>
  sub.disabledReason === "record_damaged";

/** @throws DamagedRecordError when it is only an outline: nothing can be made of it but its end */
export function refuseOutline(sub: Subscription): Subscription {
  if (isOutline(sub)) throw new DamagedRecordError("subscription", "unreadable", SUBSCRIPTION.key(sub));
  return sub;
}
