/** Composes the portal links: who mints them, and the auth that takes them. */
import { createPortalLinks, withPortal } from "../../api/portal/links.ts";
import type { PortalOffer } from "../../api/resources/portal-links.ts";
import { ordinals } from "../../model/ids.ts";
import type { Auth } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Keys } from "../../ports/plugin.ts";
import type { Storage } from "../../ports/storage.ts";
import type { TLSSocket } from "node:tls";
import { isLoopbackHost } from "../../model/loopback.ts";
import type { Call } from "../../api/http/call.ts";

/** Without a portal, the auth is the plug-in's as it is, so no link opens anything. */
export function composePortal(parts: {
  readonly plan: Pick<Plan, "portal">;
  readonly clock: Clock;
  readonly keys: Keys;
  readonly storage: Storage;
  readonly auth: Auth;
}): { readonly auth: Auth; readonly offer: PortalOffer | undefined } {
  const { portal } = parts.plan;
  if (portal === false) return { auth: parts.auth, offer: undefined };
  const links = createPortalLinks({ ...parts, ordinal: ordinals(parts.clock.now) });
  return { auth: withPortal(parts.auth, links), offer: { links, pageUrl: portalPage(portal.url) } };
}

/**
 * The configured origin, else the host that the request was sent to: by HTTPS, since a proxy in front ends it, but on
 * loopback as it came.
 */
const portalPage =
  (origin: string | undefined) =>
  (call: Call): string =>
    `${origin ?? originOf(call)}/portal`;

function originOf({ req }: Call): string {
  const host = req.headers.host ?? "localhost";
  const plain =
    (req.socket as Partial<TLSSocket>).encrypted !== true && isLoopbackHost(host.toLowerCase().replace(/:\d+$/, ""));
  return `${plain ? "http" : "https"}://${host}`;
}
