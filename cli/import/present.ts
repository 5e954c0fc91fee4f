/** Recognizes subscriptions that a key has already: those with the same URL and the same events. */

interface Named {
  readonly url: string;
  readonly events: readonly string[];
}

export interface Present {
  /** The id of a subscription with this URL and these events; `undefined` when there is none. */
  find(body: Readonly<Record<string, unknown>>): string | undefined;
  add(one: Named, id: string): void;
}

/** Order and repeats of the events do not count; the URL counts as the relay stores it. */
export function createPresent(listed: readonly (Named & { readonly id: string })[]): Present {
  const ids = new Map<string, string>();
  const identity = ({ url, events }: Named): string =>
    JSON.stringify([URL.parse(url)?.href ?? url, [...new Set(events)].sort()]);
  const present: Present = {
    find: (body) => ids.get(identity(body as unknown as Named)),
    add: (one, id) => void ids.set(identity(one), id),
  };
  for (const one of listed) present.add(one, one.id);
  return present;
}
