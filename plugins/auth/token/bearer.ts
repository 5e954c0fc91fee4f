/** Reads the frame of a bearer token: where it stands, and what its header may hold before the signature is checked. */
import { utf8 } from "../../../core/lib/json.ts";
import { bearerToken } from "../../../core/model/token.ts";

/** Longest token that is read, in bytes. */
const LONGEST = 8_192;
const THREE_SEGMENTS = /^[\w-]+\.[\w-]+\.[\w-]+$/;
/** Hints at keys to trust (RFC 7515 §4.1): a token must not choose our keys. `crit` requires extensions that we do not know. */
const REFUSED_HEADERS = ["jwk", "jku", "x5u", "x5c", "crit"] as const;

export interface TokenHeader {
  readonly alg: string;
  readonly kid?: string;
  readonly typ?: string;
}

/** Returns the token of an `Authorization` header: three segments, ≤ 8 KiB; undefined when it is anything else. */
export function framedToken(authorization: string | undefined): string | undefined {
  if (authorization === undefined || authorization.length > LONGEST + 32) return undefined;
  const token = bearerToken(authorization);
  return token === undefined || token.length > LONGEST || !THREE_SEGMENTS.test(token) ? undefined : token;
}

/** Returns the header of a framed token; undefined when it must not be checked further. */
export function tokenHeader(token: string): TokenHeader | undefined {
  const header = jsonObject(Buffer.from(token.slice(0, token.indexOf(".")), "base64url"));
  if (header === undefined) return undefined;
  if (REFUSED_HEADERS.some((name) => Object.hasOwn(header, name))) return undefined;
  const { alg, kid, typ } = header;
  if (typeof alg !== "string") return undefined;
  if (kid !== undefined && (typeof kid !== "string" || kid.length > 256)) return undefined;
  if (typ !== undefined && typeof typ !== "string") return undefined;
  return { alg, ...(kid === undefined ? {} : { kid }), ...(typ === undefined ? {} : { typ }) };
}

/** `at+jwt`, `AT+JWT` and `application/at+jwt` are one type (RFC 7515 §4.1.9). */
export function isTyp(header: TokenHeader, wanted: string): boolean {
  const bare = (typ: string): string => typ.toLowerCase().replace(/^application\//, "");
  return header.typ !== undefined && bare(header.typ) === bare(wanted);
}

/** Returns the JSON object in the bytes; undefined when they are anything else. */
export function jsonObject(bytes: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(utf8.decode(bytes));
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
