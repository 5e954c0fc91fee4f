/** Addresses of a NAT64 (RFC 6052): where there is IPv6 alone, DNS64 makes them of IPv4 addresses, and they lead to these. */
import { type Address, inRange, parseRange } from "./ip-address.ts";

/** Returns what is wrong with an entry of `guard.nat64`, or nothing. */
export function nat64Problem(prefix: string): string | undefined {
  const range = parseRange(prefix);
  const isPrefix = range?.family === 6 && range.bits === 96 && prefix.includes("/");
  return isPrefix ? undefined : "must be an IPv6 prefix of 96 bits, such as 64:ff9b::/96";
}

/** @returns the IPv4 address inside an address of one of the prefixes; any other address as it is */
export function insideNat64(prefixes: readonly string[]): (address: Address) => Address {
  const ranges = prefixes.flatMap((prefix) => parseRange(prefix) ?? []);
  return (address) =>
    ranges.some((range) => inRange(address, range)) ? { family: 4, value: address.value & 0xffff_ffffn } : address;
}
