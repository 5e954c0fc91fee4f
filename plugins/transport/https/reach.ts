/** How connections reach their targets: with what the config gives for single hosts, and through the egress proxy. */
import { StartError } from "../../../core/model/errors.ts";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import { must } from "../../../core/ports/options.ts";
import type { Connect, PluginContext, TlsIdentity } from "../../../core/ports/plugin.ts";
import { readHosts, type Hosts } from "./hosts.ts";
import { FORM, proxyText, readProxy, throughProxy } from "./proxy.ts";

interface ReachOptions {
  readonly hosts?: Hosts;
  readonly proxy?: SecretOption;
}

export interface Reach {
  readonly connect: Connect;
  /** What single hosts need in TLS: the caller puts it into its target. */
  readonly hosts: ReadonlyMap<string, TlsIdentity>;
  /** Why nothing can be sent: the proxy is away. */
  readonly readiness?: () => string | undefined;
}

/** What is read at the start is checked there; that it is a secret option at all, by the relay. */
export const PROXY = must(FORM, (proxy) => typeof proxy !== "string" || proxy === "" || readProxy(proxy) !== undefined);

/** What the option sets, for people. */
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
