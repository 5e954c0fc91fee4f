/** An address is public only when it is nothing else, in whatever form it is written. */
import { BlockList } from "node:net";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { inRange, parseAddress, parseRange } from "../../core/guard/ip-address.ts";
import { classify } from "../../core/guard/classify.ts";
import type { AddressClass } from "../../core/guard/classify.ts";

const classOf = (text: string): AddressClass => {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(`not an address: ${text}`);
  return classify(address);
};
const hex = (value: number): string => value.toString(16);

/** Addresses that must never be called without being opened, by the registries: an own list, not the one under test. */
const inside = new BlockList();
for (const [net, bits] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
] as const)
  inside.addSubnet(net, bits);

describe("classify", () => {
  it.each([
    ["public", ["1.1.1.1", "8.8.8.8", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"]],
    ["internal", ["10.0.0.1", "127.0.0.1", "192.168.1.1", "240.0.0.1", "::1", "fd00::1", "fc00::1", "2001:db8::1"]],
    ["sensitive", ["0.0.0.0", "169.254.169.254", "224.0.0.1", "255.255.255.255", "168.63.129.16", "100.100.100.200"]],
    ["sensitive", ["192.0.0.192", "::", "fe80::1", "ff02::1", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"]],
    ["sensitive", ["::ffff:8.8.8.8", "::8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "4000::1", "5f00::1"]],
  ] as const)("calls %s: %j", (kind, addresses) => {
    for (const address of addresses) expect([address, classOf(address)]).toEqual([address, kind]);
  });

  it("finds no inner IPv4 address public", () => {
    fc.assert(
      fc.property(fc.ipV4(), (address) => {
        if (inside.check(address)) expect(classOf(address)).not.toBe("public");
      }),
      { numRuns: 2_000 },
    );
  });

  it("finds no IPv6 address public that carries an IPv4 address in a known place", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0xffff }), fc.integer({ min: 0, max: 0xffff }), (high, low) => {
        const tail = `${hex(high)}:${hex(low)}`;
        const teredo = `${hex(high ^ 0xffff)}:${hex(low ^ 0xffff)}`;
        for (const text of [
          `::${tail}`,
          `::ffff:${tail}`,
          `::ffff:0:${tail}`,
          `64:ff9b::${tail}`,
          `64:ff9b:1::${tail}`,
          `2002:${tail}::1`,
          `2001:0:4136:e378:8000:63bf:${teredo}`,
          `::5efe:${tail}`,
        ])
          expect([text, classOf(text)]).not.toEqual([text, "public"]);
      }),
    );
  });

  it("finds nothing public outside 2000::/3", () => {
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        const address = parseAddress(text);
        const unicast = parseRange("2000::/3");
        if (address === undefined || unicast === undefined) return;
        if (!inRange(address, unicast)) expect(classify(address)).not.toBe("public");
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("addresses", () => {
  it("are read as the URL parser reads them, however they are written", () => {
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        const canonical = new URL(`https://[${text}]/`).hostname.slice(1, -1);
        expect(parseAddress(text)).toEqual(parseAddress(canonical));
      }),
      { numRuns: 2_000 },
    );
  });

  it("lie in a range exactly when Node's own list says so", () => {
    fc.assert(
      fc.property(fc.ipV4(), fc.ipV4(), fc.integer({ min: 0, max: 32 }), (one, net, bits) => {
        const list = new BlockList();
        list.addSubnet(net, bits);
        const address = parseAddress(one);
        const range = parseRange(`${net}/${bits}`);
        expect(address && range && inRange(address, range)).toBe(list.check(one));
      }),
    );
  });

  it("of the two families never meet", () => {
    const everything = parseRange("::/0");
    const four = parseAddress("10.0.0.1");
    expect(everything && four && inRange(four, everything)).toBe(false);
  });

  it.each([
    "",
    "1.2.3",
    "1.2.3.4.5",
    "01.2.3.4",
    "256.1.1.1",
    "[::1]",
    "::1/64",
    ":::",
    "1::2::3",
    "10.0.0.1 ",
    "localhost",
  ])("%j is none", (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });
});
