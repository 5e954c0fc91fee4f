/** Reads and writes the refresh cookie: no script can read it, no other site can send it, and only `/auth/refresh` uses it. */
import { isLoopbackHost } from "../../../core/lib/loopback.ts";
import type { RouteRequest } from "../../../core/ports/plugin.ts";

const NAME = "__Host-relay";
const RULES = "Path=/; HttpOnly; Secure; SameSite=Strict";

export const setCookie = (value: string, lastsMs: number): string =>
  `${NAME}=${value}; ${RULES}; Max-Age=${Math.floor(lastsMs / 1_000)}`;

export const clearCookie = (): string => `${NAME}=; ${RULES}; Max-Age=0`;

/** Returns its value; undefined when it is missing or occurs more than once, so that nobody can put another one in front. */
export function readCookie(request: RouteRequest): string | undefined {
  const values = (request.header("cookie") ?? "")
    .split(";")
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${NAME}=`));
  return values.length === 1 ? values[0]?.slice(NAME.length + 1) : undefined;
}

/** True when a page of the relay sent it: `Origin` is the configured one or the host, by HTTPS or on loopback. */
export function isOwnOrigin(request: RouteRequest, configured: string | undefined): boolean {
  const origin = request.header("origin");
  const site = request.header("sec-fetch-site");
  if (origin === undefined || (site !== undefined && site !== "same-origin")) return false;
  if (configured !== undefined) return origin === configured;
  if (!URL.canParse(origin)) return false;
  const { host, hostname, protocol, origin: exact } = new URL(origin);
  if (exact !== origin) return false;
  const asked = request.header("host")?.toLowerCase();
  const port = protocol === "https:" ? ":443" : ":80";
  if (host !== asked && `${host}${port}` !== asked) return false;
  return protocol === "https:" || (protocol === "http:" && isLoopbackHost(hostname));
}
