/** Holds the access token. It lives in memory only, and is sent only in `Authorization`. */
import { cell } from "./cell.ts";
import { hasPortal, isPortal } from "./page-facts.ts";

interface ParsedToken {
  readonly text: string;
  readonly sub: string;
  /** Key ids it owns; `"*"` for all of them. */
  readonly keys: readonly string[] | "*";
  readonly access: "manage" | "read";
  readonly amr: readonly string[];
  /** Epoch ms. */
  readonly expiresAt: number;
  /** When to renew it, epoch ms. */
  readonly renewAt: number;
}

export const token = cell<ParsedToken | undefined>(undefined);

/** Returns whose token it is. Each portal link has a name of its own: its key stays the same. */
export const holderOf = (one: ParsedToken | undefined): string | undefined => (isPortal ? one?.keys[0] : one?.sub);

/** Returns the content of a token to show, unchecked; `undefined`: it is not a JWT. */
export function readToken(text: string): ParsedToken | undefined {
  try {
    const middle = text.split(".")[1] ?? "";
    const bytes = Uint8Array.from(atob(middle.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const claims = JSON.parse(new TextDecoder().decode(bytes)) as Readonly<Record<string, unknown>>;
    const { sub, exp, iat, amr, api_keys: owned, api_access: access } = claims;
    if (typeof sub !== "string" || typeof exp !== "number") return undefined;
    const keys = Array.isArray(owned) ? owned.filter((one) => typeof one === "string") : [];
    return {
      text,
      sub,
      keys: keys.includes("*") ? "*" : keys,
      access: access === undefined || access === "manage" ? "manage" : "read",
      amr: Array.isArray(amr) ? amr.filter((one) => typeof one === "string") : [],
      expiresAt: exp * 1_000,
      renewAt: exp * 1_000 - Math.min(45_000, (exp - (typeof iat === "number" ? iat : exp)) * 200),
    };
  } catch {
    return undefined;
  }
}

/**
 * Returns true for what the caller may do, so that views leave out what the relay would refuse. The relay decides by itself.
 * `change`: anything of the key. `publish`, `rotate` and `erase`: what is no customer's business. `link`: making links to
 * the portal.
 */
export function may(what: "change" | "publish" | "rotate" | "erase" | "link"): boolean {
  if (token.now?.access === "read") return false;
  return what === "change" || (!isPortal && (what !== "link" || hasPortal));
}
