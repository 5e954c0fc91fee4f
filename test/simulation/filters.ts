/** Filters in the simulation: those that a subscription may have had while an event was judged, and what they say of it. */
import type { Filter } from "../../core/model/filter.ts";

export const FILTER: Filter = { path: "data.x", in: [1, null, "A\u00e9"] };

/** A time in which a subscription may have had the filter, or none. Ms of the world. */
export interface FilterSpan {
  readonly filtered: boolean;
  readonly from: number;
  /** When a later change was answered; infinity while none was. */
  until: number;
  /** True when the change to it was answered. */
  answered: boolean;
}

/** Returns true when the filter includes an event with these data. */
function includes(data: string): boolean {
  const { x } = JSON.parse(data) as { readonly x: unknown };
  return x === 1 || x === null || x === "A\u00e9";
}

/**
 * Returns true when an event that was accepted between two moments went to a subscription; `undefined` when its filter
 * changed then, so that either may be right.
 */
export function included(spans: readonly FilterSpan[], data: string, from: number, to: number): boolean | undefined {
  const possible = spans.filter((span) => span.until >= from && span.from <= to);
  const said = new Set(possible.map(({ filtered }) => !filtered || includes(data)));
  return said.size === 1 ? said.has(true) : undefined;
}
