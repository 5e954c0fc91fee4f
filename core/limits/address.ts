/** Whose address a request comes from, and which addresses count as one caller. */
import { BlockList, isIP } from "node:net";

/** True for addresses of proxies that are believed. */
export type Trusted = (address: string) => boolean;

/**
 * @param networks addresses and CIDRs
 * @throws TypeError when one is neither
 */
export function trustedProxies(networks: readonly string[]): Trusted {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", bits] = network.split("/");
    const family = isIP(address);
    if (family === 0) throw new TypeError(`not an address or CIDR: ${network}`);
    const type = family === 4 ? "ipv4" : "ipv6";
    if (bits === undefined) list.addAddress(address, type);
    else list.addSubnet(address, Number(bits), type);
  }
  if (networks.length === 0) return () => false;
  return (address) => {
    const family = isIP(address);
    return family !== 0 && list.check(address, family === 4 ? "ipv4" : "ipv6");
  };
}

/**
 * The client's address: the socket's, or, when that is a trusted proxy, the right-most `X-Forwarded-For` address that is
 * none. Only what trusted proxies wrote is read: a malformed entry ends the walk at the last address that was sure.
 */
export function clientAddress(socket: string, forwarded: string | undefined, trusted: Trusted): string {
  let client = plain(socket);
  if (forwarded === undefined || !trusted(client)) return client;
  const hops = forwarded.split(",");
  for (let i = hops.length - 1; i >= 0; i--) {
    const hop = hopAddress(hops[i] as string);
    if (hop === undefined) return client;
    client = hop;
    if (!trusted(client)) return client;
  }
  return client;
}

/** One entry of `X-Forwarded-For`: an address, which some proxies write with a port. */
function hopAddress(text: string): string | undefined {
  const entry = text.trim();
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(entry);
  const bare = bracketed?.[1] ?? (/^[\d.]+:\d{1,5}$/.test(entry) ? entry.slice(0, entry.indexOf(":")) : entry);
  return isIP(bare) === 0 ? undefined : plain(bare);
}

/** Without a zone, and IPv4 written inside IPv6 (`::ffff:10.0.0.1`) as IPv4. */
function plain(address: string): string {
  const zone = address.indexOf("%");
  const bare = zone < 0 ? address : address.slice(0, zone);
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare);
  return mapped?.[1] ?? bare;
}

/** What is counted: an IPv4 address, or the /64 that an IPv6 address lies in, since one customer owns all of it. */
export function addressPrincipal(address: string): string {
  const bare = plain(address);
  if (isIP(bare) !== 6) return `ip ${bare}`;
  const groups = expand(bare);
  const embedded = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (embedded) {
    const [high = 0, low = 0] = groups.slice(6);
    return `ip ${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
  }
  return `ip ${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(":")}::/64`;
}

/** The eight groups of a valid IPv6 address. */
function expand(address: string): readonly number[] {
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(address);
  const [a = 0, b = 0, c = 0, d = 0] = (dotted?.slice(2) ?? []).map(Number);
  const text = dotted === null ? address : `${dotted[1]}${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
  const [head = "", tail] = text.split("::");
  const parse = (part: string): number[] =>
    part === "" ? [] : part.split(":").map((group) => Number.parseInt(group, 16));
  const [left, right] = [parse(head), parse(tail ?? "")];
  return tail === undefined ? left : [...left, ...Array<number>(8 - left.length - right.length).fill(0), ...right];
}
