/** Keeps the view in the address after the `#`, so that each has an address and the relay serves one page. */
import { dropBegun } from "./begun.ts";
import { cell } from "./cell.ts";
import { spent, withQuery } from "./api.ts";
import { isPortal } from "./page-facts.ts";

export interface PagePlace {
  /** `["k", "key_1", "events"]` */
  readonly parts: readonly string[];
  readonly query: Readonly<Record<string, string>>;
}

function read(): PagePlace {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decode);
  return { parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const place = cell<PagePlace>(read());
/** Set when another view is opened: its main heading takes the focus, so that it is read out. */
export const arrived = { focus: false };

/** Reads the current address. A link that comes into it is no view: the session takes it out. */
function follow(): void {
  if (isPortal && location.hash.startsWith("#link=")) return;
  const before = place.now.parts.join("/");
  const next = read();
  if (next.parts.join("/") !== before) {
    spent.count = 0;
    dropBegun();
    arrived.focus = true;
  }
  place.set(next);
}
addEventListener("hashchange", follow);

type Query = Readonly<Record<string, string | undefined>>;

/** Returns the address of a view. */
export const to = (parts: readonly string[], query: Query = {}): string =>
  withQuery(`#/${parts.map(encodeURIComponent).join("/")}`, query);

export function go(parts: readonly string[], query: Query = {}): void {
  location.hash = to(parts, query);
}

// An address changes shortly before its event. The next ones read the address itself, because the user may just have gone
// elsewhere.

/** Returns `go` for when an answer has come. It does nothing once the user has left the view that is open now. */
export function goFromHere(): typeof go {
  const view = (): string => read().parts.join("/");
  const here = view();
  return (parts, query) => {
    if (view() === here) go(parts, query);
  };
}

/** Changes the query of this view, without a step in the history. */
export function refine(query: Query): void {
  const here = read();
  history.replaceState(null, "", to(here.parts, { ...here.query, ...query }));
  follow();
}

/** Puts the address of the current view back. */
export function stay(): void {
  history.replaceState(null, "", to(place.now.parts, place.now.query));
}

/** Replaces the address, whatever it was, without a step in the history. */
export function openAt(parts: readonly string[]): void {
  history.replaceState(null, "", to(parts));
  place.set(read());
}

/** Replaces the start by the intended view; does nothing when the user has left the start already. */
export function settleRoute(parts: readonly string[]): void {
  if (read().parts.length === 0) openAt(parts);
}
