/** Writes and reads the record of a subscription. One that is damaged is shown as an outline, so that it stops no other. */
import { verified, withChecksum } from "../lib/checksum.ts";
import { DamagedRecordError } from "../model/errors.ts";
import { SUBSCRIPTION } from "../model/schema.ts";
import type { Subscription } from "../model/subscription.ts";

/** Called with each damaged record that is met. */
export type Told = (error: DamagedRecordError) => void;

/**
 * Encodes JSON, its checksum first: a single changed character must not send events elsewhere. The time of the change is in
 * it twice: version 0.1.0 knows of no checksum and leaves it as it is when it changes the record, but for `updatedAt`.
 */
export const encodeSubscription = (sub: Subscription): string =>
  withChecksum(JSON.stringify({ summedAt: sub.updatedAt, ...sub }).slice(1));

/** Whether both are the same version of a record: mostly one object, unless it was read twice. */
export const isSameVersion = (one: Subscription | undefined, other: Subscription | undefined): boolean =>
  one === other || (one !== undefined && other !== undefined && encodeSubscription(one) === encodeSubscription(other));

/**
 * Decodes the record under `key` and checks it. One that version 0.1.0 has written has no checksum that counts, and gets it
 * when it changes.
 * @throws DamagedRecordError when the text is not the record of a subscription, or that of another key
 */
export function decodeSubscription(text: string, key: string): Subscription {
  const proven = verified(text, '{"id":"');
  const read = parsed(proven?.text ?? text, key);
  const { sum: _, summedAt, ...sub } = read as { readonly sum?: unknown; readonly summedAt?: unknown };
  if (proven === undefined && (!Number.isFinite(summedAt) || summedAt === (sub as Partial<Subscription>).updatedAt))
    throw new DamagedRecordError("subscription", "checksum", key);
  if (!isSubscription(sub)) throw new DamagedRecordError("subscription", "unreadable", key);
  if (SUBSCRIPTION.key(sub) !== key) throw new DamagedRecordError("subscription", "misplaced", key);
  return sub;
}

function parsed(text: string, key: string): object {
  let cause: unknown;
  try {
    const read: unknown = JSON.parse(text);
    if (typeof read === "object" && read !== null) return read;
  } catch (error) {
    cause = error;
  }
  throw new DamagedRecordError("subscription", "unreadable", key, { cause });
}

/** Looks at what everything else relies on: a part that is read only where it is used fails there. */
function isSubscription(read: object): read is Subscription {
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
 * @param told called when it is damaged
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
  const { keyId, id } = SUBSCRIPTION.id(key);
  const unknown = { url: "", createdAt: 0, updatedAt: 0, generation: 0, secrets: [] };
  const shown = { status: "disabled", disabledReason: "record_damaged", description: "a damaged record" } as const;
  return { id, keyId, events: ["*"], ...shown, ...unknown };
}

/** Whether it is only the outline of one whose record is damaged. */
export const isOutline = (sub: Pick<Subscription, "disabledReason">): boolean =>
  sub.disabledReason === "record_damaged";

/** @throws DamagedRecordError when it is only an outline: nothing can be made of it but its end */
export function refuseOutline(sub: Subscription): Subscription {
  if (isOutline(sub)) throw new DamagedRecordError("subscription", "unreadable", SUBSCRIPTION.key(sub));
  return sub;
}
