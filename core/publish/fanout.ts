/**
 * Finds the subscriptions that an event goes to, by its type and, where they have filters, by its data. This is decided
 * once, at acceptance.
 */
import type { ConflictError } from "../model/errors.ts";
import type { MaybePromise } from "../lib/maybe-promise.ts";
import { OPERATIONAL } from "../model/names.ts";
import { SUBSCRIPTION } from "../model/schema.ts";
import { wants, type Subscription } from "../model/subscription.ts";
import type { Fanout } from "../records/snapshots.ts";
import { filtersOf, narrow, type Filters, type Narrowed } from "./apply-filters.ts";

/** The subscriptions that want a type. */
export interface TypeFanout extends Fanout {
  /** Their filters; absent when none of them has one. */
  readonly filters?: Filters;
}

export function fanout(type: string, subscriptions: readonly Subscription[]): TypeFanout {
  const interested = subscriptions.filter((sub) => sub.deletedAt === undefined && wants(sub, type));
  const filters = filtersOf(interested);
  // Operational events are stored with other changes, which must not depend on their place.
  const inOrder = (sub: Subscription): boolean => sub.ordered === true && !type.startsWith(OPERATIONAL);
  const ordered = interested.filter((sub) => sub.status === "active" && inOrder(sub));
  return {
    due: interested.filter((sub) => sub.status === "active" && !inOrder(sub)),
    ...(ordered.length > 0 && { ordered }),
    failed: interested.filter((sub) => sub.status === "disabled"),
    ids: interested.map((sub) => sub.id),
    ...(filters !== undefined && { filters }),
  };
}

/**
 * Types remembered per list of subscriptions, and ids in all of their answers. Both are bounded, because publishers
 * without a catalogue can invent names, and data decides what filters leave of a list.
 */
const TYPES_HELD = 1_000;
const IDS_HELD = 100_000;

interface Held {
  ids: number;
  readonly answers: Map<string, TypeFanout>;
  /** By the verdicts of the filters. */
  readonly narrowed: Map<TypeFanout, Map<string, Narrowed>>;
}

/** Answers are remembered while they are asked for the same list of subscriptions: equal answers are one object. */
interface Fanouts {
  of(type: string, subscriptions: readonly Subscription[]): TypeFanout;
  /** Returns what the filters of a type leave; the list of the type itself when they leave all of it. */
  narrowed(fan: TypeFanout, verdicts: string, subscriptions: readonly Subscription[]): Fanout | Narrowed;
}

export function rememberedFanouts(): Fanouts {
  const lists = new WeakMap<readonly Subscription[], Held>();

  function heldOf(subscriptions: readonly Subscription[]): Held {
    let held = lists.get(subscriptions);
    if (held === undefined) lists.set(subscriptions, (held = { ids: 0, answers: new Map(), narrowed: new Map() }));
    return held;
  }

  function makeRoom(held: Held): void {
    if (held.answers.size < TYPES_HELD && held.ids <= IDS_HELD) return;
    held.answers.clear();
    held.narrowed.clear();
    held.ids = 0;
  }

  return {
    of(type, subscriptions) {
      const held = heldOf(subscriptions);
      let answer = held.answers.get(type);
      if (answer === undefined) {
        answer = fanout(type, subscriptions);
        makeRoom(held);
        held.answers.set(type, answer);
        held.ids += answer.ids.length;
      }
      return answer;
    },
    narrowed(fan, verdicts, subscriptions) {
      if (fan.filters === undefined || !verdicts.includes("0")) return fan;
      const held = heldOf(subscriptions);
      let answer = held.narrowed.get(fan)?.get(verdicts);
      if (answer === undefined) {
        answer = narrow(fan, fan.filters, verdicts);
        makeRoom(held);
        const known = held.narrowed.get(fan) ?? new Map<string, Narrowed>();
        held.narrowed.set(fan, known.set(verdicts, answer));
        // The verdicts are kept too.
        held.ids += fan.ids.length + 1;
      }
      return answer;
    },
  };
}

export interface Subscribers {
  /** Returns the live subscriptions of a key, without a promise once they are read; the same list until one of them changes. */
  of(keyId: string): MaybePromise<readonly Subscription[]>;
}
/** The live subscriptions of each key of a request. */
export type SubscriptionsByKey = ReadonlyMap<string, readonly Subscription[]>;

/** @throws StorageError when the subscriptions cannot be read */
export async function subscriptionsIn(
  subscribers: Subscribers,
  drafts: readonly { readonly keyId: string }[],
): Promise<SubscriptionsByKey> {
  const found = new Map<string, readonly Subscription[]>();
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

/** True when the node that lost a commit had not heard of a change to subscriptions, which it has by now. */
export const isOutdated = ({ keys }: ConflictError): boolean => keys.length === 1 && keys[0] === SUBSCRIPTION.start;
