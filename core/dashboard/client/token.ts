/** The access token. It lives in memory only, and goes nowhere but into `Authorization`. */
import { cell } from "./cell.ts";

export interface ParsedToken {
  readonly text: string;
  readonly sub: string;
  /** Key ids it owns; `"*"` for all of them. */
  readonly keys: readonly string[] | "*";
  readonly amr: readonly string[];
  /** Epoch ms. */
  readonly expiresAt: number;
  /** When it is time for the next one, epoch ms. */
  readonly renewAt: number;
}

export const token = cell<ParsedToken | undefined>(undefined);

/** What stands in a token, to be shown; whether it is genuine only the relay can tell. `undefined`: it is no JWT. */
export function readToken(text: string): ParsedToken | undefined {
  try {
    const middle = text.split(".")[1] ?? "";
    const bytes = Uint8Array.from(atob(middle.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const claims = JSON.parse(new TextDecoder().decode(bytes)) as Readonly<Record<string, unknown>>;
    const { sub, exp, iat, amr, api_keys: owned } = claims;
    if (typeof sub !== "string" || typeof exp !== "number") return undefined;
    const keys = Array.isArray(owned) ? owned.filter((one) => typeof one === "string") : [];
    return {
      text,
      sub,
      keys: keys.includes("*") ? "*" : keys,
      amr: Array.isArray(amr) ? amr.filter((one) => typeof one === "string") : [],
      expiresAt: exp * 1_000,
      renewAt: exp * 1_000 - Math.min(45_000, (exp - (typeof iat === "number" ? iat : exp)) * 200),
    };
  } catch {
    return undefined;
  }
}
