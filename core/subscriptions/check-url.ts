/** Checks a subscription's URL before it is stored: by its transport where that can, else by the guard. */
import { chooseTransport } from "../model/transport-choice.ts";
import type { Transport } from "../ports/transport.ts";

export type CheckedUrl =
  | { readonly ok: true; readonly href: string }
  | {
      readonly ok: false;
      readonly reason: string;
      readonly message: string;
      /** The entry of `guard.allow` that would open it, where one can. */
      readonly allow?: string;
    };

/** The part of the guard that checks a URL. */
interface UrlGuard {
  register(url: string, of: { readonly scheme: string; readonly port: number }): Promise<CheckedUrl>;
}

const HTTPS_PORT = 443;

/**
 * Returns a check that asks the URL's transport; a scheme or a named connection that no transport serves is refused.
 * @param hide masks secrets in what a transport says
 */
export function checkUrl(
  transports: readonly Transport[],
  guard: UrlGuard,
  hide: (text: string) => string = String,
): (url: string) => Promise<CheckedUrl> {
  const transportOf = chooseTransport(transports);
  return async (url) => {
    const scheme = url.slice(0, Math.max(0, url.indexOf(":"))).toLowerCase();
    const transport = transportOf(url);
    if (typeof transport === "string") return refused(transport);
    if (transport.problems === undefined)
      return await guard.register(url, { scheme, port: transport.defaultPort ?? HTTPS_PORT });
    const message = await transport.problems(url);
    return message === undefined ? { ok: true, href: url } : refused(hide(message));
  };
}

const refused = (message: string): CheckedUrl => ({ ok: false, reason: "URL_REFUSED", message });

/** Returns whether the transport of a URL uses credentials of its subscription. */
export function takesCredentials(transports: readonly Transport[]): (url: string) => boolean {
  const transportOf = chooseTransport(transports);
  return (url) => {
    const transport = transportOf(url);
    return typeof transport !== "string" && transport.takesCredentials === true;
  };
}
