/** Judges client addresses by networks that the config names. */
import { BlockList, isIP } from "node:net";

/**
 * Returns a check that is true for an address among those.
 * @param trusted addresses and CIDRs
 * @throws TypeError when one is neither
 */
export function createTrust(trusted: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const entry of trusted) {
    const [address = "", bits] = entry.split("/");
    const family = isIP(address);
    if (family === 0) throw new TypeError(`not an address or CIDR: ${entry}`);
    if (bits === undefined) list.addAddress(address, family === 6 ? "ipv6" : "ipv4");
    else list.addSubnet(address, Number(bits), family === 6 ? "ipv6" : "ipv4");
  }
  return (address) => isIP(address) !== 0 && list.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}
