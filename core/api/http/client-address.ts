/** Finds the client's address behind trusted proxies. */
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { createTrust } from "../../ports/networks.ts";

export type AddressOf = (request: IncomingMessage) => string;

/** The address of the other end of the connection. */
export const peerOf = (request: IncomingMessage): string => plain(request.socket.remoteAddress ?? "");

/**
 * The socket's address, or, when that is a trusted proxy, the right-most `X-Forwarded-For` address that is none. Only
 * what trusted proxies wrote is read: a malformed entry ends the walk at the last address that was sure.
 * @param trusted addresses and CIDRs
 * @throws TypeError when one is neither
 */
export function createAddressOf(trusted: readonly string[]): AddressOf {
  const isTrusted = createTrust(trusted);

  return (request) => {
    let client = peerOf(request);
    const forwarded = request.headers["x-forwarded-for"];
    if (forwarded === undefined || trusted.length === 0 || !isTrusted(client)) return client;
    for (const entry of String(forwarded).split(",").reverse()) {
      const hop = hopAddress(entry.trim());
      if (hop === undefined) return client;
      client = hop;
      if (!isTrusted(client)) return client;
    }
    return client;
  };
}

/** One entry: an address, which some proxies write with a port. */
function hopAddress(entry: string): string | undefined {
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(entry);
  const bare = bracketed?.[1] ?? (/^[\d.]+:\d{1,5}$/.test(entry) ? entry.slice(0, entry.indexOf(":")) : entry);
  return isIP(bare) === 0 ? undefined : plain(bare);
}

/** Without a zone, and IPv4 written inside IPv6, as dual-stack sockets show it, as IPv4. */
function plain(address: string): string {
  const bare = address.split("%")[0] as string;
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1] ?? bare;
}
