/** Decides which host names may be called: ordinary public ones, not those with a meaning only inside a network. */
import { isIP } from "node:net";

export type NameReason = "HOST_INVALID" | "HOST_TRAILING_DOT" | "HOST_FORBIDDEN";

/** Zones reserved or usual for inner networks (RFC 2606, 6761, 6762, 7686, 9476, ICANN's `.internal`). */
const ZONES = [
  "localhost",
  "local",
  "localdomain",
  "internal",
  "intranet",
  "private",
  "corp",
  "home",
  "lan",
  "arpa",
  "test",
  "invalid",
  "example",
  "onion",
  "alt",
  "svc",
  "consul",
];

/** Names of the clouds' metadata services that do not end in one of the zones above. */
const METADATA = [
  "metadata.goog",
  "metadata.azure.com",
  "metadata.azure.net",
  "metadata.tencentyun.com",
  "metadata.packet.net",
  "metadata.platformequinix.com",
  "metadata.cloud.ibm.com",
  "metadata.oraclecloud.com",
  "metadata.hetzner.cloud",
];

interface WrongName {
  readonly reason: NameReason;
  readonly message: string;
  /** A host of an inner network, which an operator may open by its name. */
  readonly inner?: true;
}

/**
 * Returns what is wrong with a host name, if anything. Address literals have no name and pass.
 * @param host lower case, as in `URL.hostname`
 */
export const hostname = (host: string): WrongName | undefined => {
  if (isIP(host.startsWith("[") ? host.slice(1, -1) : host) !== 0) return undefined;
  if (host.endsWith(".")) return { reason: "HOST_TRAILING_DOT", message: "the host name must not end in a dot" };
  const labels = host.split(".");
  if (host.length > 253 || !labels.every((label) => /^(?!-)[a-z\d-]{1,63}(?<!-)$/.test(label)))
    return { reason: "HOST_INVALID", message: "the host name must be labels of letters, digits and inner hyphens" };
  // Some parser reads every name that ends in a number as an IPv4 address (WHATWG URL, "ends in a number").
  if (/^(?:\d+|0x[\da-f]*)$/.test(labels.at(-1) ?? ""))
    return { reason: "HOST_INVALID", message: "the host name must not end in a number" };
  if (labels.length < 2)
    return { reason: "HOST_FORBIDDEN", message: "the host name has no domain, so it is not a public one", inner: true };
  if (under(METADATA, host)) return { reason: "HOST_FORBIDDEN", message: "the host is a cloud's metadata service" };
  if (under(ZONES, host))
    return { reason: "HOST_FORBIDDEN", message: "the host name is reserved for inner networks", inner: true };
  return undefined;
};

const under = (zones: readonly string[], host: string): boolean =>
  zones.some((zone) => host === zone || host.endsWith(`.${zone}`));
