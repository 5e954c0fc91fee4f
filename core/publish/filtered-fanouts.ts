/** Finds the subscriptions that each event of a request goes to, with their filters applied. */
import type { MaybePromise } from "../lib/maybe-promise.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Fanout } from "../records/snapshots.ts";
import { createFilterJudge, type Narrowed } from "./apply-filters.ts";
import { rememberedFanouts, type SubscriptionsByKey, type TypeFanout } from "./fanout.ts";

/** What of an event decides where it goes. */
export interface Addressed {
  readonly keyId: string;
  readonly type: string;
  /** The published text of `data`. */
  readonly data: string;
}

export type FanoutOf = (event: Addressed) => Fanout | Narrowed;

export interface FilteredFanouts {
  /**
   * Finds the fan-out of each event. Returns no promise when no subscription that wants one of them has a filter; only
   * then is the data parsed, once for each event.
   */
  of(events: readonly Addressed[], byKey: SubscriptionsByKey): MaybePromise<FanoutOf>;
}

const NONE: readonly Subscription[] = [];
const immediate = (): Promise<void> => new Promise((turned) => void setImmediate(turned));

/** @param turn resolves when other work has had its turn */
export function createFilteredFanouts(turn: () => Promise<void> = immediate): FilteredFanouts {
  const fanouts = rememberedFanouts();
  const judge = createFilterJudge(turn);
  /** A commit that is repeated judges again only where the subscriptions have changed. */
  const judged = new WeakMap<Addressed, { readonly from: TypeFanout; readonly to: Fanout | Narrowed }>();

  async function judgeAll(events: readonly Addressed[], byKey: SubscriptionsByKey): Promise<FanoutOf> {
    const found = new Map<Addressed, Fanout | Narrowed>();
    for (const event of events) {
      const { keyId, type, data } = event;
      const list = byKey.get(keyId) ?? NONE;
      const from = fanouts.of(type, list);
      const known = judged.get(event);
      let to: Fanout | Narrowed = from;
      if (known?.from === from) to = known.to;
      else if (from.filters !== undefined) {
        to = fanouts.narrowed(from, await judge.verdicts(from.filters, type, data), list);
        judged.set(event, { from, to });
      }
      found.set(event, to);
    }
    return (event) => found.get(event) as Fanout;
  }

  return {
    of(events, byKey) {
      const plain = (event: Addressed): TypeFanout => fanouts.of(event.type, byKey.get(event.keyId) ?? NONE);
      return events.some((event) => plain(event).filters !== undefined) ? judgeAll(events, byKey) : plain;
    },
  };
}
