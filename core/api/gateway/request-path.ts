/** Finds the operation of `/v1` that a path names, and the normal spelling in which it is matched, counted and forwarded. */
import { restForm } from "../../limits/route-limits.ts";
import { ranked, segmentsOf } from "../http/paths.ts";

export interface GatewayRoute {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
}

/** @param rows names of limit rows; those under `/v1`, each with its REST-style form, are the gateway's operations */
export function gatewayRoutes(rows: readonly string[]): readonly GatewayRoute[] {
  const names = new Set<string>();
  for (const row of rows) {
    const spelled = row.replaceAll(/:([A-Za-z_]\w*)/g, "{$1}");
    if (!/^[A-Z]+ \/v1\//.test(spelled)) continue;
    names.add(spelled);
    const rest = restForm(spelled);
    if (rest !== undefined) names.add(rest);
  }
  // `PATCH /v1/qr/{slug}` may be named twice, under different names of its parameter.
  const routes = new Map<string, GatewayRoute>();
  for (const name of names) {
    const [method, path] = name.split(" ") as [GatewayRoute["method"], string];
    routes.set(`${method} ${path.replaceAll(/\{[^}]*\}/g, "{}")}`, { method, path });
  }
  return [...routes.values()];
}

/** Returns the operation that `path`, in its normal spelling, names. */
type FindRoute = (method: string, path: string) => GatewayRoute | undefined;

export function createFindRoute(routes: readonly GatewayRoute[]): FindRoute {
  const known = ranked(routes);
  return (method, path) => {
    const asked = method === "HEAD" ? "GET" : method;
    const segments = segmentsOf(path);
    return known.find(({ endpoint, read }) => endpoint.method === asked && read(segments))?.endpoint;
  };
}

/** Characters that mean something to a server behind us: separators, `;` parameters, a second round of decoding. */
const MEANT = /[/\\;?#%\p{Cc}]/u;

/**
 * The normal spelling of a path: decoded once, encoded again. `undefined` for what different servers would read
 * differently: empty and dot segments, encoded separators, `;`, spaces at an end, what is encoded twice, what is no
 * UTF-8.
 * @param path without its query
 */
export function normalPath(path: string): string | undefined {
  if (!path.startsWith("/")) return undefined;
  const segments: string[] = [];
  for (const segment of path.slice(1).split("/")) {
    const value = decoded(segment);
    if (value === undefined || !isPlain(value)) return undefined;
    segments.push(encodeURIComponent(value));
  }
  return `/${segments.join("/")}`;
}

/** True for a segment that every server reads alike: not empty, no dot segment, nothing to trim or to decode again. */
const isPlain = (value: string): boolean =>
  value !== "" && value !== "." && value !== ".." && value.trim() === value && !MEANT.test(value);

/** Characters of a query that are encoded, so that no server sees an end where we saw none. */
const UNSAFE_IN_QUERY = /[^\x21-\x7e]|#/g;

/** The query of a request line, with its `?`; empty when there is none. */
export function queryOf(target: string): string {
  const mark = target.indexOf("?");
  if (mark < 0) return "";
  return target
    .slice(mark)
    .replaceAll(UNSAFE_IN_QUERY, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);
}

/** The host of a request line in absolute form. It takes precedence over `Host` (RFC 9112 §3.2.2). */
export const askedHost = (target: string): string | undefined =>
  /^https?:\/\/(?:[^/?#@]*@)?([^/?#@]+)/i.exec(target)?.[1];

/**
 * True when some server might read this path as one under `/v1`, however it is spelled, and when that is uncertain.
 * @param path without its query
 */
export function mayBeGateway(path: string): boolean {
  let text = path;
  for (let round = 0; text.includes("%"); round++) {
    const next = decoded(text);
    if (next === undefined || round === 4) return true;
    if (next === text) break;
    text = next;
  }
  if (/[\\?#\p{Cc}]/u.test(text)) return true;
  const segments = text.split("/").map((segment) => segment.split(";")[0] as string);
  if (segments.some((segment) => segment === "." || segment === "..")) return true;
  return segments.find((segment) => segment !== "")?.toLowerCase() === "v1";
}

function decoded(text: string): string | undefined {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
