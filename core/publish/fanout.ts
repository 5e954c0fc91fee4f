/** Finds the subscriptions that an event goes to. This is decided once, at acceptance. */
import type { MaybePromise } from "../model/maybe-promise.ts";
import { wants, type Subscription } from "../model/subscription.ts";
import type { Fanout } from "../records/snapshots.ts";

export function fanout(type: string, subscriptions: readonly Subscription[]): Fanout {
  const interested = subscriptions.filter((sub) => sub.deletedAt === undefined && wants(sub, type));
  return {
    due: interested.filter((sub) => sub.status === "active"),
    failed: interested.filter((sub) => sub.status === "disabled"),
    ids: interested.map((sub) => sub.id),
  };
}

/**
 * Types remembered per list of subscriptions, and ids in all of their answers. Both are bounded, because publishers
 * without a catalogue can invent names.
 */
const TYPES_HELD = 1_000;
const IDS_HELD = 100_000;

/** Returns a `fanout` that remembers its answers while it gets the same list of subscriptions. */
export function rememberedFanout(): typeof fanout {
  const lists = new WeakMap<readonly Subscription[], { ids: number; readonly answers: Map<string, Fanout> }>();
  return (type, subscriptions) => {
    let held = lists.get(subscriptions);
    if (held === undefined) lists.set(subscriptions, (held = { ids: 0, answers: new Map() }));
    let answer = held.answers.get(type);
    if (answer === undefined) {
      answer = fanout(type, subscriptions);
      if (held.answers.size >= TYPES_HELD || held.ids > IDS_HELD) {
        held.answers.clear();
        held.ids = 0;
      }
      held.answers.set(type, answer);
      held.ids += answer.ids.length;
    }
    return answer;
  };
}

export interface Subscribers {
  /**
   * Returns the live subscriptions of a key, without a promise once they are read; the same list until one of them
   * changes.
   */
  of(keyId: string): MaybePromise<readonly Subscription[]>;
}
/** The live subscriptions of each key of a request. */
export type SubscriptionsByKey = ReadonlyMap<string, readonly Subscription[]>;

/** @throws StorageError when the subscriptions cannot be read */
export function subscriptionsOf(
  subscribers: Subscribers,
  drafts: readonly { readonly keyId: string }[],
): MaybePromise<SubscriptionsByKey> {
  const found = new Map<string, readonly Subscription[]>();
  for (const { keyId } of drafts) {
    if (found.has(keyId)) continue;
    const list = subscribers.of(keyId);
    if (list instanceof Promise) return readSubscriptions(subscribers, drafts, found);
    found.set(keyId, list);
  }
  return found;
}

async function readSubscriptions(
  subscribers: Subscribers,
  drafts: readonly { readonly keyId: string }[],
  found: Map<string, readonly Subscription[]>,
): Promise<SubscriptionsByKey> {
  for (const { keyId } of drafts) if (!found.has(keyId)) found.set(keyId, await subscribers.of(keyId));
  return found;
}

/**
 * True while no subscription list has changed since it was read. A list that must be read again is a promise, so not
 * the same.
 */
export function holds(subscribers: Subscribers, byKey: SubscriptionsByKey): boolean {
  for (const [keyId, list] of byKey) if (subscribers.of(keyId) !== list) return false;
  return true;
}
