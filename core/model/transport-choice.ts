/** Chooses the transport of a URL by its scheme and, for a connection, the name in the place of a host. */

/** Names the URLs that a transport serves; see the transport port. */
interface Serves {
  readonly schemes: readonly string[];
  readonly name?: string;
}

/** Returns the transport of a URL, or one line that says why there is none. */
export type TransportChoice<T extends Serves> = (url: string) => T | string;

/** The transports of one scheme: the one that takes every host, and the named connections. */
interface Scheme<T> {
  any: T | undefined;
  readonly named: Map<string, T>;
}

/** Of two transports for the same scheme and name the later one is chosen; `twice` finds such pairs. */
export function chooseTransport<T extends Serves>(transports: readonly T[]): TransportChoice<T> {
  const schemes = new Map<string, Scheme<T>>();
  for (const transport of transports) {
    for (const scheme of transport.schemes) {
      const known = schemes.get(scheme) ?? { any: undefined, named: new Map<string, T>() };
      schemes.set(scheme, known);
      if (transport.name === undefined) known.any = transport;
      else known.named.set(transport.name, transport);
    }
  }
  return (url) => {
    const end = url.indexOf(":");
    const scheme = schemes.get(url.slice(0, end)) ?? schemes.get(url.slice(0, Math.max(0, end)).toLowerCase());
    if (scheme === undefined)
      return `no transport in the config serves ${url.slice(0, Math.max(0, end)).toLowerCase()}: URLs`;
    if (scheme.named.size === 0 && scheme.any !== undefined) return scheme.any;
    const name = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i.exec(url)?.[1] ?? "";
    return (
      scheme.named.get(name) ??
      scheme.any ??
      `no connection in the config for ${url.slice(0, end)}: URLs is named ${JSON.stringify(name.slice(0, 100))}`
    );
  };
}

/** Returns the first scheme, with its name if any, that two transports claim; `undefined` when each is claimed once. */
export function twice(transports: readonly Serves[]): string | undefined {
  const seen = new Set<string>();
  for (const { schemes, name } of transports) {
    for (const scheme of schemes) {
      const claim = name === undefined ? `${scheme}:` : `${scheme}://${name}`;
      if (seen.has(claim)) return claim;
      seen.add(claim);
    }
  }
  return undefined;
}
