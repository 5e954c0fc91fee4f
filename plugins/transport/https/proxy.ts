/** Reads the URL of the egress proxy, and knows whether the proxy is away. */
import { ConnectError, ProxyError } from "../../../core/model/errors.ts";
import type { Connect, ConnectProxy } from "../../../core/ports/plugin.ts";

export const FORM = "must be a URL such as http://user:password@proxy.internal:3128, without path, query or fragment";
const PORTS: Readonly<Record<string, number>> = { "http:": 80, "https:": 443 };

/** Returns the proxy of a URL; `undefined` when it is none. */
export function readProxy(text: string): ConnectProxy | undefined {
  const url = URL.parse(text);
  const port = url === null ? undefined : PORTS[url.protocol];
  if (url === null || port === undefined || url.hostname === "") return undefined;
  if (url.pathname.length > 1 || url.search !== "" || url.hash !== "") return undefined;
  const { hostname, username, password, protocol } = url;
  try {
    const credentials = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`);
    return {
      hostname,
      port: url.port === "" ? port : Number(url.port),
      tls: protocol === "https:",
      ...(username + password !== "" && { authorization: `Basic ${credentials.toString("base64")}` }),
    };
  } catch {
    return undefined;
  }
}

/** The proxy without its credentials, for people. */
export const proxyText = ({ hostname, port, tls }: ConnectProxy): string =>
  `${tls ? "https" : "http"}://${hostname}:${port}`;

interface ProxiedConnect {
  readonly connect: Connect;
  /** Why nothing can be sent: the last connection failed at the proxy. */
  readonly readiness: () => string | undefined;
}

/** Sends every connection through the proxy. */
export function throughProxy(connect: Connect, proxy: ConnectProxy): ProxiedConnect {
  let away: string | undefined;
  return {
    readiness: () => away,
    async connect(target, signal) {
      try {
        const socket = await connect({ ...target, proxy }, signal);
        away = undefined;
        return socket;
      } catch (error) {
        if (signal.aborted) throw error;
        if (error instanceof ProxyError) away = error.message;
        else if (failedBehind(error)) away = undefined;
        throw error;
      }
    },
  };
}

/** True when the proxy was asked and the target failed: that shows that the proxy works. */
const failedBehind = (error: unknown): boolean =>
  error instanceof ConnectError && error.stage !== "dns" && error.stage !== "guard";
