/** Addresses of a NAT64: they lead to the IPv4 address inside, which alone says whether they may be called. */
import { describe, expect, it } from "vitest";
import { createGuard } from "../../core/guard/index.ts";
import { nat64Problem } from "../../core/guard/nat64.ts";
import { testClock } from "../support/clock.ts";

const verdict = (found: readonly string[], nat64?: readonly string[], allow: readonly string[] = []) =>
  createGuard({
    ...{ allow, ports: [443], clock: testClock(), nat64 },
    ownAddresses: () => ["8.8.4.4"],
    resolver: () => Promise.resolve([...found]),
  }).register("https://hooks.example.com/");

describe("an address that DNS64 has made of an IPv4 address", () => {
  const prefixes = ["64:ff9b::/96", "2001:db8:64::/96"];

  it("may be called where the IPv4 address may, and the prefix is named", async () => {
    for (const found of [["64:ff9b::808:808"], ["2001:db8:64::8.8.8.8"], ["8.8.8.8", "64:ff9b::808:808"]]) {
      expect(await verdict(found), found.join()).toMatchObject({
        ok: false,
        reason: expect.stringMatching(/PUBLIC|MIXED/),
      });
      expect(await verdict(found, prefixes), found.join()).toMatchObject({ ok: true });
    }
    expect(await verdict(["64:ff9b:0:0:0:1:808:808"], prefixes)).toMatchObject({ ok: false });
  });

  it.each([
    ["64:ff9b::a00:1", "IP_NOT_PUBLIC"],
    ["64:ff9b::7f00:1", "IP_NOT_PUBLIC"],
    ["64:ff9b::a9fe:a9fe", "IP_NOT_PUBLIC"],
    ["64:ff9b::808:404", "SELF_CONNECTION"],
  ])("is refused as its IPv4 address is: %s", async (address, reason) => {
    expect(await verdict([address], prefixes)).toMatchObject({ ok: false, reason });
  });

  it("is opened by an entry for the IPv4 address, and by a host only where that is not metadata", async () => {
    expect(await verdict(["64:ff9b::a00:1"], prefixes, ["10.0.0.0/8"])).toMatchObject({ ok: true });
    expect(await verdict(["64:ff9b::a00:1"], prefixes, ["hooks.example.com"])).toMatchObject({ ok: true });
    expect(await verdict(["64:ff9b::a9fe:a9fe"], prefixes, ["hooks.example.com"])).toMatchObject({ ok: false });
    // What opened it before the prefix was named opens its 10.0.0.1 no more.
    expect(await verdict(["64:ff9b::a00:1"], prefixes, ["[64:ff9b::/96]"])).toMatchObject({ ok: false });
  });

  it("needs a prefix of 96 bits", () => {
    expect(["64:ff9b::/96", "2001:db8::/96"].map(nat64Problem)).toEqual([undefined, undefined]);
    for (const wrong of ["64:ff9b::", "64:ff9b::/64", "10.0.0.0/8", "nat64", "", "64:ff9b::/128"])
      expect(nat64Problem(wrong), wrong).toBe("must be an IPv6 prefix of 96 bits, such as 64:ff9b::/96");
  });
});
