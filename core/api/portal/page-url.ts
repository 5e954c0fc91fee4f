/** Returns where the portal's page is, as the one who asked for a link can reach it. */
import type { TLSSocket } from "node:tls";
import { isLoopbackHost } from "../../model/loopback.ts";
import type { Call } from "../http/call.ts";

/**
 * The configured origin, else the host that the request was sent to: by HTTPS, since a proxy in front ends it, but on
 * loopback as it came.
 */
export const portalPage =
  (origin: string | undefined) =>
  (call: Call): string =>
    `${origin ?? originOf(call)}/portal`;

function originOf({ req }: Call): string {
  const host = req.headers.host ?? "localhost";
  const plain =
    (req.socket as Partial<TLSSocket>).encrypted !== true && isLoopbackHost(host.toLowerCase().replace(/:\d+$/, ""));
  return `${plain ? "http" : "https"}://${host}`;
}
