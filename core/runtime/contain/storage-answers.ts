/** Judges what a storage answers, by what its port promises. */
import type { Entry, Lease, RangeOptions } from "../../ports/storage.ts";

export type Judge = (value: unknown) => boolean;

/** Whether each is a text, or absent. */
export const isTexts = (values: unknown): values is readonly (string | undefined)[] =>
  Array.isArray(values) && values.every((value) => value === undefined || typeof value === "string");

const PAGE = 100;

/** Whether it is a page of entries under the prefix, in order, all of them after the place that was asked for. */
export const isEntries =
  (prefix: string, { after, limit = PAGE, reverse = false }: RangeOptions = {}): Judge =>
  (rows) => {
    if (!Array.isArray(rows) || rows.length > limit) return false;
    let before = after;
    for (const row of rows as readonly (Entry | null | undefined)[]) {
      const { key, value } = row ?? ({} as Partial<Entry>);
      if (typeof key !== "string" || typeof value !== "string" || !key.startsWith(prefix)) return false;
      // A page that does not go on would be read for ever.
      if (before !== undefined && (reverse ? key >= before : key <= before)) return false;
      before = key;
    }
    return true;
  };

export function isLease(value: unknown): value is Lease {
  const { subscriptionId, keyId, ordinal, dueAt, token } = (value ?? {}) as Partial<Lease>;
  return [subscriptionId, keyId, ordinal, token].every((one) => typeof one === "string") && Number.isFinite(dueAt);
}

/** Returns a function that leaves out the leases which the claim before gave out, too: those are under way or over. */
export function nextLeases(): (leases: readonly Lease[]) => readonly Lease[] {
  let last: ReadonlySet<string> = new Set();
  return (leases) => {
    if (leases.length === 0) return leases;
    const before = last;
    last = new Set(leases.map(nameOf));
    const fresh = leases.filter((lease) => !before.has(nameOf(lease)));
    return last.size === fresh.length ? fresh : [...new Map(fresh.map((lease) => [nameOf(lease), lease])).values()];
  };
}

const nameOf = ({ subscriptionId, ordinal, token }: Lease): string => `${subscriptionId} ${ordinal} ${token}`;
