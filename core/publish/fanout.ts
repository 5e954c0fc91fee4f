/**
 * Finds the subscriptions that an event goes to, by its type and, where they have filters, by its data. This is decided
 * once, before the event is written, so that its record or snapshot names exactly its deliveries: later steps know of no
 * filters, an event without deliveries is `unmatched`, and a filter that changes later does not affect it.
 */
import type { MaybePromise } from "../lib/maybe-promise.ts";
import type { ConflictError } from "../model/errors.ts";
import { OPERATIONAL } from "../model/names.ts";
import { SUBSCRIPTION } from "../model/schema.ts";
import { wants, type Subscription } from "../model/subscription.ts";
import type { Fanout } from "../records/snapshots.ts";
import { excludedBy, FilterJudge, filtersOf, type Filters } from "./filters.ts";

/** The subscriptions that an event goes to. */
export interface Narrowed extends Fanout {
  /** Those that wanted its type, and whose filter it does not match; absent when filters left nobody out. */
  readonly filteredOut?: readonly string[];
}

/** The subscriptions that want a type. */
interface TypeFanout extends Narrowed {
  /** Their filters; absent when none of them has one. */
  readonly filters?: Filters;
}

/** The part of an event that decides where it goes. */
export interface Addressed {
  readonly keyId: string;
  readonly type: string;
  /** The published text of `data`. */
  readonly data: string;
}

export interface Subscribers {
  /** Returns the live subscriptions of a key, without a promise once they are read; the same list until one of them changes. */
  of(keyId: string): MaybePromise<readonly Subscription[]>;
}
/** The live subscriptions of each key of a request. */
type SubscriptionsByKey = ReadonlyMap<string, readonly Subscription[]>;

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

function without(fan: Fanout, out: ReadonlySet<string>): Narrowed {
  const stays = ({ id }: Subscription): boolean => !out.has(id);
  const ordered = fan.ordered?.filter(stays) ?? [];
  return {
    due: fan.due.filter(stays),
    ...(ordered.length > 0 && { ordered }),
    failed: fan.failed.filter(stays),
    ids: fan.ids.filter((id) => !out.has(id)),
    filteredOut: [...out],
  };
}

/**
 * Types remembered per list of subscriptions, and ids in all of their answers. Both are bounded, because publishers
 * without a catalogue can invent names, and data decides what filters leave of a list.
 */
const TYPES_HELD = 1_000;
const IDS_HELD = 100_000;

/** The answers for one list of subscriptions. */
class Answers {
  readonly #types = new Map<string, TypeFanout>();
  /** By the verdicts of the filters. */
  readonly #narrowed = new Map<TypeFanout, Map<string, Narrowed>>();
  #ids = 0;

  of(type: string, subscriptions: readonly Subscription[]): TypeFanout {
    let answer = this.#types.get(type);
    if (answer === undefined) {
      answer = fanout(type, subscriptions);
      this.#makeRoom();
      this.#types.set(type, answer);
      this.#ids += answer.ids.length;
    }
    return answer;
  }

  /** Returns what the filters of a type leave; the list of the type itself when they leave all of it. */
  narrowed(fan: TypeFanout, filters: Filters, verdicts: string): Narrowed {
    if (!verdicts.includes("0")) return fan;
    let answer = this.#narrowed.get(fan)?.get(verdicts);
    if (answer === undefined) {
      answer = without(fan, excludedBy(filters, verdicts));
      this.#makeRoom();
      const known = this.#narrowed.get(fan) ?? new Map<string, Narrowed>();
      this.#narrowed.set(fan, known.set(verdicts, answer));
      // The verdicts are kept too.
      this.#ids += fan.ids.length + 1;
    }
    return answer;
  }

  #makeRoom(): void {
    if (this.#types.size < TYPES_HELD && this.#ids <= IDS_HELD) return;
    this.#types.clear();
    this.#narrowed.clear();
    this.#ids = 0;
  }
}

const NONE: readonly Subscription[] = [];
const immediate = (): Promise<void> => new Promise((turned) => void setImmediate(turned));

/** Finds fan-outs, and remembers them for each list of subscriptions: equal ones are one object, and share a snapshot. */
export class Fanouts {
  readonly #lists = new WeakMap<readonly Subscription[], Answers>();
  readonly #judge: FilterJudge;
  /** A commit that is repeated judges again only where the subscriptions have changed. */
  readonly #judged = new WeakMap<Addressed, { readonly from: TypeFanout; readonly to: Narrowed }>();

  /** @param turn resolves when other work has had its turn */
  constructor(turn: () => Promise<void> = immediate) {
    this.#judge = new FilterJudge(turn);
  }

  /** Finds the fan-out of each event: no promise where no filter needs its data parsed. */
  of(events: readonly Addressed[], byKey: SubscriptionsByKey): MaybePromise<(event: Addressed) => Narrowed> {
    const plain = ({ keyId, type }: Addressed): TypeFanout => {
      const list = byKey.get(keyId) ?? NONE;
      return this.#answers(list).of(type, list);
    };
    return events.some((event) => plain(event).filters !== undefined) ? this.#judgeAll(events, byKey, plain) : plain;
  }

  async #judgeAll(
    events: readonly Addressed[],
    byKey: SubscriptionsByKey,
    plain: (event: Addressed) => TypeFanout,
  ): Promise<(event: Addressed) => Narrowed> {
    const found = new Map<Addressed, Narrowed>();
    for (const event of events) {
      const from = plain(event);
      let to = this.#judged.get(event);
      if (to?.from !== from && from.filters !== undefined) {
        const verdicts = await this.#judge.verdicts(from.filters, event.type, event.data);
        to = { from, to: this.#answers(byKey.get(event.keyId) ?? NONE).narrowed(from, from.filters, verdicts) };
        this.#judged.set(event, to);
      }
      found.set(event, to?.from === from ? to.to : from);
    }
    return (event) => found.get(event) as Narrowed;
  }

  #answers(list: readonly Subscription[]): Answers {
    let known = this.#lists.get(list);
    if (known === undefined) this.#lists.set(list, (known = new Answers()));
    return known;
  }
}

/** @throws StorageError when the subscriptions cannot be read */
export async function subscriptionsIn(
  subscribers: Subscribers,
  drafts: readonly { readonly keyId: string }[],
): Promise<SubscriptionsByKey> {
  const found = new Map<string, readonly Subscription[]>();
  for (const { keyId } of drafts) if (!found.has(keyId)) found.set(keyId, await subscribers.of(keyId));
  return found;
}

/** Returns true while no subscription list has changed since. One that must be read again is a promise. */
export function holds(subscribers: Subscribers, byKey: SubscriptionsByKey): boolean {
  for (const [keyId, list] of byKey) if (subscribers.of(keyId) !== list) return false;
  return true;
}

/** Returns true when the node that lost a commit had not heard of a change to subscriptions, which it has by now. */
export const isOutdated = ({ keys }: ConflictError): boolean => keys.length === 1 && keys[0] === SUBSCRIPTION.start;
