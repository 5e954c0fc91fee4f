/** Reads IP addresses as numbers, so that ranges can be compared whatever the spelling. */
import { isIPv4, isIPv6 } from "node:net";

export interface Address {
  readonly family: 4 | 6;
  readonly value: bigint;
}

/** A CIDR block. `bits` is the length of its prefix. */
export interface AddressRange extends Address {
  readonly bits: number;
}

const SIZE = { 4: 32, 6: 128 } as const;

/** Reads an address as resolver, kernel or operator write it. A zone (`%eth0`) is dropped, brackets are refused. */
export const parseAddress = (text: string): Address | undefined => {
  if (isIPv4(text)) return { family: 4, value: v4(text) };
  if (isIPv6(text)) return { family: 6, value: v6(text.split("%", 1)[0] ?? "") };
  return undefined;
};

/** Reads `10.0.0.0/8` or a single address. Bits after the prefix do not matter. */
export const parseRange = (text: string): AddressRange | undefined => {
  const [, ip = "", prefix] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const address = parseAddress(ip);
  if (address === undefined) return undefined;
  const bits = prefix === undefined ? SIZE[address.family] : Number(prefix);
  return bits <= SIZE[address.family] ? { ...address, bits } : undefined;
};

export const inRange = (address: Address, range: AddressRange): boolean => {
  if (address.family !== range.family) return false;
  const rest = BigInt(SIZE[range.family] - range.bits);
  return address.value >> rest === range.value >> rest;
};

export const sameAddress = (a: Address, b: Address): boolean => a.family === b.family && a.value === b.value;

const v4 = (text: string): bigint => text.split(".").reduce((value, octet) => (value << 8n) | BigInt(octet), 0n);

const v6 = (text: string): bigint => {
  const dotted = /(?<=:)[\d.]+$/.exec(text)?.[0];
  if (dotted?.includes(".")) {
    const value = v4(dotted);
    return v6(`${text.slice(0, -dotted.length)}${(value >> 16n).toString(16)}:${(value & 0xffffn).toString(16)}`);
  }
  const [head = "", tail] = text.split("::", 2);
  const left = groups(head);
  const right = tail === undefined ? [] : groups(tail);
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => 0n);
  return [...left, ...zeros, ...right].reduce((value, group) => (value << 16n) | group, 0n);
};

const groups = (text: string): bigint[] => (text === "" ? [] : text.split(":").map((group) => BigInt(`0x${group}`)));
