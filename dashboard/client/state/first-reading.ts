/** Knows what the first view of an address asks for, so that it can be sent before the view is there. */

interface FirstReading {
  readonly stream: string;
  readonly path: string;
}

const ADDRESS = /^#\/k\/([\w:-]+)\/([a-z]+)(?:\/([\w:-]+))?$/;

/** Returns `undefined` for an address with a filter, and for views that are not opened by their address as a rule. */
export function firstReading(hash: string): FirstReading | undefined {
  const [, keyId, view, id] = ADDRESS.exec(hash) ?? [];
  if (keyId === undefined) return undefined;
  const key = `/api-keys/${encodeURIComponent(keyId)}`;
  const path = pathOf(view, id && encodeURIComponent(id));
  return path === undefined ? undefined : { stream: `${key}/stream`, path: key + path };
}

function pathOf(view: string | undefined, id: string | undefined): string | undefined {
  switch (view) {
    case "events":
    case "attempts":
      return id === undefined ? `/${view}?limit=25` : view === "events" ? `/events/${id}` : undefined;
    case "overview":
      return id === undefined ? "/stats?range=1h" : undefined;
    case "subscriptions":
      return id === undefined ? "/stats?range=24h" : `/stats?range=24h&subscriptionId=${id}`;
    default:
      return undefined;
  }
}
