/** Reads the part of a URL that names the destination on a connection. */

/** What stands behind `scheme://name/`, checked: as parts, or one line on what is wrong. */
export type Destination = { readonly parts: readonly string[] } | { readonly problem: string };

/** Remembers this many URLs that were read. */
const HELD = 1_000;

/**
 * Reads destinations of one connection. The pattern decides alone what a URL may reach, so that no subscriber gets at
 * what the bus keeps for itself; its groups are the parts.
 */
export function destinations(start: string, pattern: RegExp, rule: string): (url: string) => Destination {
  const known = new Map<string, Destination>();
  const problem = `must be ${start} and ${rule}`;
  return (url) => {
    const found = known.get(url);
    if (found !== undefined) return found;
    const match = url.startsWith(start) ? pattern.exec(url.slice(start.length)) : null;
    const read: Destination = match === null ? { problem } : { parts: match.slice(1).map((part) => part ?? "") };
    if (known.size >= HELD) known.clear();
    known.set(url, read);
    return read;
  };
}
