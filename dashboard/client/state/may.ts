/** Says what the caller may do, so that views leave out what the relay would refuse. The relay decides by itself. */
import { hasPortal, isPortal } from "./page-facts.ts";
import { token } from "./token.ts";

/**
 * `change`: anything of the key. `publish`, `rotate` and `erase`: what is no customer's business. `link`: making links to
 * the portal.
 */
export function may(what: "change" | "publish" | "rotate" | "erase" | "link"): boolean {
  if (token.now?.access === "read") return false;
  return what === "change" || (!isPortal && (what !== "link" || hasPortal));
}
