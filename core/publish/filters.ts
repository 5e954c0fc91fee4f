/** Judges events by the filters of subscriptions. Equal filters are judged once. */
import { compileFilter, type Filter, type FilteredEvent, type Matcher } from "../model/filter.ts";
import type { Subscription } from "../model/subscription.ts";

/** The filters of a list of subscriptions, each with those that have it. */
export type Filters = readonly { readonly filter: Filter; readonly of: readonly Subscription[] }[];

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

/** Returns the ids of subscriptions whose filters have the verdict `0`. */
export const excludedBy = (filters: Filters, verdicts: string): ReadonlySet<string> =>
  new Set(filters.flatMap(({ of }, i) => (verdicts[i] === "0" ? of.map(({ id }) => id) : [])));

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
export class FilterJudge {
  readonly #turn: () => Promise<void>;
  #spent = 0;

  /** @param turn resolves when other work has had its turn */
  constructor(turn: () => Promise<void>) {
    this.#turn = turn;
  }

  /** Returns which of the filters the event matches, one character each: `1` or `0`. @param data its JSON */
  async verdicts(filters: Filters, type: string, data: string): Promise<string> {
    const event: FilteredEvent = { type, data: JSON.parse(data) as unknown };
    this.#spent += data.length / CHARACTERS_A_STEP;
    let found = "";
    for (const { filter } of filters) {
      if (this.#spent >= STEPS_AT_ONCE) {
        this.#spent = 0;
        await this.#turn();
      }
      let matcher = matchers.get(filter);
      if (matcher === undefined) {
        matchers.set(filter, (matcher = compiled(filter)));
        this.#spent += COMPILING * matcher.cost;
      }
      found += matcher.matches(event) ? "1" : "0";
      this.#spent += matcher.cost;
    }
    return found;
  }
}
