/** Selects the headers that pass the gateway, in either direction, and reads from them who the limits count. */
import { addressGroup } from "../../lib/address.ts";
import { apiKeyPrincipal, type Caller } from "../../limits/takes.ts";
import { Problem } from "../../model/problem.ts";
import { bearerToken } from "../../model/token.ts";

/** Headers of one connection only (RFC 9110 §7.6.1), or that each hop writes itself. */
const HOP = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authentication-info",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "http2-settings",
];

/** Headers that are not taken from a client: they say who it is or where it came from, or replace path or method. */
const CLIENT_MAY_NOT: ReadonlySet<string> = new Set([
  ...HOP,
  "host",
  "content-length",
  "expect",
  "forwarded",
  "via",
  "x-request-id",
  "x-real-ip",
  "x-client-ip",
  "x-cluster-client-ip",
  "x-rewrite-url",
  "x-http-method",
  "x-http-method-override",
  "x-method-override",
  "true-client-ip",
  "cf-connecting-ip",
]);
const CLIENT_MAY_NOT_START = ["x-forwarded-", "x-original-"];

/** Returns true for a header of a client that the gateway passes on. @param name in lower case */
export function passesOn(name: string): boolean {
  // CGI makes X_Forwarded_For and X-Forwarded-For one variable.
  const dashed = name.replaceAll("_", "-");
  return !CLIENT_MAY_NOT.has(dashed) && !startsWithAny(dashed, CLIENT_MAY_NOT_START);
}

/** Limit headers of an upstream. The answer has the relay's instead. */
const LIMITS: ReadonlySet<string> = new Set(["ratelimit", "ratelimit-policy"]);
const LIMITS_START = ["x-ratelimit-", "x-burst-"];

const UPSTREAM_MAY_NOT: ReadonlySet<string> = new Set([...HOP, "x-request-id", "via"]);

/** The relay's own cookies. A browser sends them to every path of this origin; the upstream does not get them. */
const OWN_COOKIE = /^\s*__Host-relay/i;

/** Names and values in turn. */
type Pairs = readonly string[];

/** The facts that the gateway itself adds to a request. */
interface Origin {
  /** The client's address. */
  readonly address: string;
  readonly proto: string;
  /** The host that the client asked for. */
  readonly host: string | undefined;
  readonly requestId: string;
  /** The relay's name in `Via`. */
  readonly name: string;
}

/**
 * The client's headers as the upstream gets them, without framing and Host.
 * @param keyHeader in lower case; other spellings that some servers read as the same header are dropped
 */
export function requestPairs(raw: Pairs, origin: Origin, keyHeader: string): string[] {
  const named = connectionNames(raw);
  const pairs: string[] = [];
  let via = "";
  for (let i = 0; i < raw.length; i += 2) {
    const [name, value] = [(raw[i] as string).toLowerCase(), raw[i + 1] as string];
    if (name === "via") via += `${value}, `;
    if (!passesOn(name) || named.has(name)) continue;
    const dashed = name.replaceAll("_", "-");
    if (dashed !== name && (dashed === keyHeader || dashed === "authorization")) continue;
    const kept = name === "cookie" ? withoutOwnCookies(value) : value;
    if (kept !== "") pairs.push(name, kept);
  }
  pairs.push("x-forwarded-for", origin.address, "x-forwarded-proto", origin.proto);
  if (origin.host !== undefined) pairs.push("x-forwarded-host", origin.host);
  pairs.push("x-request-id", origin.requestId, "via", `${via}1.1 ${origin.name}`);
  return pairs;
}

/** All values of a header in `pairs`. @param name in lower case */
export function valuesOf(pairs: Pairs, name: string): readonly string[] {
  const values: string[] = [];
  for (let i = 0; i < pairs.length; i += 2)
    if ((pairs[i] as string).toLowerCase() === name) values.push(pairs[i + 1] as string);
  return values;
}

/**
 * The upstream's headers as the client gets them, with what every answer of this origin carries.
 * @param limits ours, which replace the upstream's; left out where the relay limits nothing
 */
export function responsePairs(
  { status, headers: raw }: { readonly status: number; readonly headers: Pairs },
  requestId: string,
  limits: Readonly<Record<string, string>> | undefined,
): string[] {
  const named = connectionNames(raw);
  const pairs: string[] = [];
  const seen = new Set<string>();
  for (let i = 0; i < raw.length; i += 2) {
    const [name, value] = [raw[i] as string, raw[i + 1] as string];
    const lower = name.toLowerCase();
    if (UPSTREAM_MAY_NOT.has(lower) || named.has(lower)) continue;
    if (limits !== undefined && (LIMITS.has(lower) || startsWithAny(lower, LIMITS_START))) continue;
    if (lower === "content-length" && status === 204) continue;
    if (lower === "set-cookie" && OWN_COOKIE.test(value)) continue;
    seen.add(lower);
    pairs.push(name, value);
  }
  for (const name in limits) pairs.push(name, limits[name] as string);
  pairs.push("X-Request-Id", requestId);
  if (!seen.has("cache-control")) pairs.push("Cache-Control", "no-store");
  if (!seen.has("x-content-type-options")) pairs.push("X-Content-Type-Options", "nosniff");
  // A page that the upstream sends must not run scripts in the origin of the dashboard.
  pairs.push("Content-Security-Policy", "sandbox");
  return pairs;
}

/** The limit headers of a problem, which says `Retry-After` itself. */
export function limitsOnly(headers: Readonly<Record<string, string>>): Record<string, string> {
  const { "Retry-After": _, ...rest } = headers;
  return rest;
}

const startsWithAny = (name: string, starts: readonly string[]): boolean =>
  starts.some((start) => name.startsWith(start));

/** The headers that `Connection` names: they are of this connection only. */
function connectionNames(raw: Pairs): ReadonlySet<string> {
  const names = new Set<string>();
  for (const value of valuesOf(raw, "connection"))
    for (const name of value.split(",")) names.add(name.trim().toLowerCase());
  return names;
}

const withoutOwnCookies = (value: string): string =>
  value
    .split(";")
    .filter((pair) => !OWN_COOKIE.test(pair))
    .join(";")
    .trim();

/** How many times the row an address may use: an office or a carrier shares one address. */
const ADDRESS_FACTOR = 10;

/**
 * Reads the callers that the limits count, as the upstream will read them: the key in its header, else in `Authorization:
 * Bearer`, hashed, at the row; and, since nobody has verified the key, the address at ten times the row. Without a key the
 * address stands for it.
 * @param keyHeader in lower case
 * @param authorizationHeader carries the client's own `Authorization`, in lower case
 * @throws Problem VALIDATION_FAILED when one is there twice: the upstream might read the other one
 */
export function callersIn(
  pairs: Pairs,
  keyHeader: string,
  authorizationHeader: string,
  address: string,
): readonly Caller[] {
  const one = (name: string): string | undefined => {
    const [first, second] = valuesOf(pairs, name);
    if (second !== undefined) throw new Problem("VALIDATION_FAILED", `Send one ${name} header.`);
    return first;
  };
  const authorization = one(authorizationHeader);
  const given = keyHeader === "authorization" ? undefined : one(keyHeader);
  const key = given !== undefined && given !== "" ? given : bearerToken(authorization);
  const group = addressGroup(address);
  return [
    { principal: key === undefined ? `no key ${group}` : apiKeyPrincipal(key) },
    { principal: `address ${group}`, factor: ADDRESS_FACTOR },
  ];
}
