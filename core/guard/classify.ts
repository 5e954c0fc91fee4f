/** Classifies addresses: public or not, by IANA's special-purpose registries (RFC 6890) and the habits of cloud providers. */
import { type Address, type AddressRange, inRange, parseRange } from "./ip-address.ts";

/**
 * `public`: may be called. `internal`: only when the operator's `allow` opens it. `sensitive`: only when a CIDR of
 * `allow` holds it; naming a host that resolves to it is not enough (link-local, unspecified, multicast, metadata, and
 * every IPv6 form that carries an IPv4 address inside).
 */
export type AddressClass = "public" | "internal" | "sensitive";

const ranges = (...texts: string[]): readonly AddressRange[] =>
  texts.map((text) => {
    const range = parseRange(text);
    if (range === undefined) throw new Error(`not an address range: ${text}`);
    return range;
  });

const SENSITIVE = ranges(
  "0.0.0.0/8", // this host, this network
  "169.254.0.0/16", // link-local, and the metadata service of most clouds
  "224.0.0.0/4", // multicast
  "255.255.255.255", // broadcast
  "100.100.100.200", // Alibaba metadata
  "168.63.129.16", // Azure's host agent: a public number for a local service
  "192.0.0.192", // Oracle metadata
  "fd00:ec2::/32", // AWS: metadata, credentials of pods, name server
  "fd20:ce::254", // Google metadata
  "fd00:42::42", // Scaleway metadata
  "fd00:c1::a9fe:a9fe", // Oracle metadata
  "fe80::/10", // link-local
  "ff00::/8", // multicast
  "2001::/32", // Teredo: an IPv4 address inside
  "2002::/16", // 6to4: an IPv4 address inside
);

const INTERNAL = ranges(
  "10.0.0.0/8",
  "100.64.0.0/10", // carrier-grade NAT
  "127.0.0.0/8",
  "172.16.0.0/12",
  "192.0.0.0/24", // IETF protocol assignments
  "192.0.2.0/24", // documentation
  "192.31.196.0/24", // AS112
  "192.52.193.0/24", // AMT
  "192.88.99.0/24", // 6to4 relays, withdrawn
  "192.168.0.0/16",
  "192.175.48.0/24", // AS112
  "198.18.0.0/15", // benchmarks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "240.0.0.0/4", // reserved
  "::1",
  "fc00::/7", // unique local
  "fec0::/10", // site-local, withdrawn
  "2001::/23", // IETF protocol assignments
  "2001:db8::/32", // documentation
  "2620:4f:8000::/48", // AS112
  "3fff::/20", // documentation
);

// Only this block of IPv6 was ever assigned. Anything outside it and not named above (mapped, compatible, translated
// and NAT64 addresses that `guard.nat64` does not name, segment routing, the rest) is sensitive: there is no ordinary reason to call it.
const GLOBAL_V6 = ranges("2000::/3");

const within = (address: Address, list: readonly AddressRange[]): boolean =>
  list.some((range) => inRange(address, range));

export const classify = (address: Address): AddressClass => {
  if (within(address, SENSITIVE)) return "sensitive";
  if (within(address, INTERNAL)) return "internal";
  return address.family === 4 || within(address, GLOBAL_V6) ? "public" : "sensitive";
};
