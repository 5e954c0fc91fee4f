/** Where one is: behind the `#`, so that every view has an address and the relay serves but one page. */
import { cell } from "./cell.ts";
import { spent } from "./api.ts";

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
/** Called when another view is opened: the main heading takes the focus, so that it is read out. */
export const arrived = { focus: false };

/** Takes the address as it is now. */
function follow(): void {
  const before = place.now.parts.join("/");
  const next = read();
  if (next.parts.join("/") !== before) {
    spent.count = 0;
    arrived.focus = true;
  }
  place.set(next);
}
addEventListener("hashchange", follow);

type Query = Readonly<Record<string, string | undefined>>;

/** The address of a view. */
export function to(parts: readonly string[], query: Query = {}): string {
  const asks = new URLSearchParams(Object.entries(query).filter((one): one is [string, string] => !!one[1]));
  return `#/${parts.map(encodeURIComponent).join("/")}${asks.size > 0 ? `?${asks}` : ""}`;
}

export function go(parts: readonly string[], query: Query = {}): void {
  location.hash = to(parts, query);
}

// An address changes a moment before anybody is told of it: these two go by the address itself, for somebody may just
// have gone elsewhere.

/** Changes the query of this view, without a step in the history. */
export function refine(query: Query): void {
  const here = read();
  history.replaceState(null, "", to(here.parts, { ...here.query, ...query }));
  follow();
}

/** Goes on from the start to the view that was meant, in its place; nowhere when somebody has left the start already. */
export function settleRoute(parts: readonly string[]): void {
  if (read().parts.length > 0) return;
  history.replaceState(null, "", to(parts));
  place.set(read());
}
