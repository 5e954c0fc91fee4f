/** Returns where the portal's page is, as the one who asked for a link can reach it. */
import type { TLSSocket } from "node:tls";
import type { Call } from "../http/call.ts";

const LOOPBACK = /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?$/i;

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
  const plain = (req.socket as Partial<TLSSocket>).encrypted !== true && LOOPBACK.test(host);
  return `${plain ? "http" : "https"}://${host}`;
}
