/** How connections reach their targets: with what the config gives for single hosts, and through the egress proxy. */
import { ConnectError, ProxyError, StartError } from "../../../core/model/errors.ts";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import { must } from "../../../core/ports/options.ts";
import type { Connect, ConnectProxy, PluginContext, TlsIdentity } from "../../../core/ports/plugin.ts";
import { readHosts, type Hosts } from "./hosts.ts";

interface ReachOptions {
  readonly hosts?: Hosts;
  readonly proxy?: SecretOption;
}

export interface Reach {
  readonly connect: Connect;
  /** The TLS identity of single hosts, which the caller puts into its target. */
  readonly hosts: ReadonlyMap<string, TlsIdentity>;
  /** Says why nothing can be sent: the proxy cannot be reached. */
  readonly readiness?: () => string | undefined;
}

const FORM = "must be a URL such as http://user:password@proxy.internal:3128, without path, query or fragment";
const PORTS: Readonly<Record<string, number>> = { "http:": 80, "https:": 443 };

/** Checks a text; one that is read at the start is checked there, and that it is a secret option at all, by the relay. */
export const PROXY = must(FORM, (proxy) => typeof proxy !== "string" || proxy === "" || readProxy(proxy) !== undefined);

/** Says what the option sets, for people. */
export function proxyOption(proxy: SecretOption | undefined): string | undefined {
  if (proxy === undefined) return undefined;
  const read = typeof proxy === "string" ? readProxy(proxy) : undefined;
  return read === undefined ? "through a proxy" : `through the proxy ${proxyText(read)}`;
}

/** @throws StartError 78 when a file or the proxy's URL cannot be used */
export function reach(options: ReachOptions, ctx: Pick<PluginContext, "connect" | "configDir" | "secret">): Reach {
  const hosts = readHosts(options.hosts, ctx.configDir);
  if (options.proxy === undefined) return { connect: ctx.connect, hosts };
  const proxy = readProxy(ctx.secret("proxy"));
  if (proxy === undefined) throw new StartError(78, `https(): proxy ${FORM}`);
  return { ...throughProxy(ctx.connect, proxy), hosts };
}

/** Returns the proxy of a URL; `undefined` when it is none. */
function readProxy(text: string): ConnectProxy | undefined {
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
const proxyText = ({ hostname, port, tls }: ConnectProxy): string => `${tls ? "https" : "http"}://${hostname}:${port}`;

/** Sends every connection through the proxy. */
function throughProxy(connect: Connect, proxy: ConnectProxy): Pick<Reach, "connect" | "readiness"> {
  /** Why the last connection failed at the proxy. */
  let fault: string | undefined;
  return {
    readiness: () => fault,
    async connect(target, signal) {
      try {
        const socket = await connect({ ...target, proxy }, signal);
        fault = undefined;
        return socket;
      } catch (error) {
        if (signal.aborted) throw error;
        if (error instanceof ProxyError) fault = error.message;
        else if (failedBehind(error)) fault = undefined;
        throw error;
      }
    },
  };
}

/** True when the proxy was asked and the target failed: that shows that the proxy works. */
const failedBehind = (error: unknown): boolean =>
  error instanceof ConnectError && error.stage !== "dns" && error.stage !== "guard";
