/**
 * Narrows the list of subscriptions of an event to those whose filters it matches. This happens before the event is
 * written, so that the event's record or snapshot names exactly its deliveries: later steps know of no filters, an event
 * without deliveries is `unmatched`, and a filter that changes later does not affect it. Wide events with the same list
 * still share one snapshot.
 */
import { compileFilter, type Filter, type FilteredEvent, type Matcher } from "../model/filter.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Fanout } from "../records/snapshots.ts";

/** A filter that at least one subscription has, and those that have it. Equal filters are judged once. */
interface SharedFilter {
  readonly filter: Filter;
  readonly of: readonly Subscription[];
}

/** The filters of a list of subscriptions. */
export type Filters = readonly SharedFilter[];

/** A list after the filters of one event. */
export interface Narrowed extends Fanout {
  /** Subscriptions that wanted its type, and whose filter it does not match. */
  readonly filteredOut: readonly string[];
}

/** Steps between two turns for other work: about a millisecond. */
const STEPS_AT_ONCE = 20_000;
/** Characters of JSON that are parsed in the time of a step. */
const CHARACTERS_A_STEP = 16;
/** How many judgements by a filter take as long as compiling it. */
const COMPILING = 2;

/** As long as a record is cached its filter is one object, so each is written out and compiled once. */
const texts = new WeakMap<Filter, string>();
const matchers = new WeakMap<Filter, Matcher>();

/** @returns `undefined` when none of them has a filter */
export function filtersOf(subscriptions: readonly Subscription[]): Filters | undefined {
  const byText = new Map<string, { readonly filter: Filter; readonly of: Subscription[] }>();
  for (const sub of subscriptions) {
    const { filter } = sub;
    if (filter === undefined) continue;
    const text = texts.get(filter) ?? JSON.stringify(filter);
    texts.set(filter, text);
    const known = byText.get(text);
    if (known === undefined) byText.set(text, { filter, of: [sub] });
    else known.of.push(sub);
  }
  return byText.size === 0 ? undefined : [...byText.values()];
}

const EXCLUDES_NOTHING: Matcher = { cost: 1, matches: () => true };

/** A stored filter that this version cannot read excludes nothing: an event too many can be ignored, a lost one not. */
function compiled(filter: Filter): Matcher {
  try {
    return compileFilter(filter);
  } catch {
    return EXCLUDES_NOTHING;
  }
}

/** Judges events in slices, so that the expensive filters of one key do not delay other work. */
interface FilterJudge {
  /** Returns which of the filters the event matches, one character each: `1` or `0`. @param data its JSON */
  verdicts(filters: Filters, type: string, data: string): Promise<string>;
}

/** @param turn resolves when other work has had its turn */
export function createFilterJudge(turn: () => Promise<void>): FilterJudge {
  let spent = 0;
  return {
    async verdicts(filters, type, data) {
      const event: FilteredEvent = { type, data: JSON.parse(data) as unknown };
      spent += data.length / CHARACTERS_A_STEP;
      let found = "";
      for (const { filter } of filters) {
        if (spent >= STEPS_AT_ONCE) {
          spent = 0;
          await turn();
        }
        let matcher = matchers.get(filter);
        if (matcher === undefined) {
          matchers.set(filter, (matcher = compiled(filter)));
          spent += COMPILING * matcher.cost;
        }
        found += matcher.matches(event) ? "1" : "0";
        spent += matcher.cost;
      }
      return found;
    },
  };
}

/** Takes out the subscriptions whose filters have the verdict `0`. */
export function narrow(fan: Fanout, filters: Filters, verdicts: string): Narrowed {
  const out = new Set<string>();
  for (const [i, { of }] of filters.entries()) if (verdicts[i] === "0") for (const { id } of of) out.add(id);
  const stays = ({ id }: { readonly id: string }): boolean => !out.has(id);
  const ordered = fan.ordered?.filter(stays) ?? [];
  return {
    due: fan.due.filter(stays),
    ...(ordered.length > 0 && { ordered }),
    failed: fan.failed.filter(stays),
    ids: fan.ids.filter((id) => !out.has(id)),
    filteredOut: [...out],
  };
}
