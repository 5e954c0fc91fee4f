/** No spelling of an inner address gets past the text of a URL, and what an operator opens is opened exactly so far. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkAllow, createGuard } from "../../core/guard/index.ts";
import type { Guard } from "../../core/guard/index.ts";
import { testClock } from "../support/clock.ts";

const guardWith = (allow: readonly string[] = [], ports: readonly number[] = [443], names: Names = {}): Guard =>
  createGuard({
    allow,
    ports,
    clock: testClock(),
    ownAddresses: () => ["93.184.215.99"],
    resolver: (name) => Promise.resolve(names[name] ?? []),
  });
type Names = Readonly<Record<string, readonly string[]>>;

const closed = guardWith();
const reasonOf = (guard: Guard, url: unknown): string => {
  const verdict = guard.checkText(url);
  return verdict.ok ? "OK" : verdict.reason;
};

describe("the text of a URL", () => {
  it.each([
    ["https://hooks.shop-example.com", "https://hooks.shop-example.com/"],
    ["https://hooks.shop-example.com:443/a", "https://hooks.shop-example.com/a"],
    ["HTTPS://Hooks.Shop-Example.COM/A?b=C", "https://hooks.shop-example.com/A?b=C"],
    ["https://hooks.shop-example.com/a/../b", "https://hooks.shop-example.com/b"],
    ["https://xn--bcher-kva.shop-example.com/", "https://xn--bcher-kva.shop-example.com/"],
    ["https://8.8.8.8/", "https://8.8.8.8/"],
  ])("%s is stored as %s", (url, href) => {
    expect(closed.checkText(url)).toMatchObject({ ok: true, href });
  });

  it.each([
    undefined,
    null,
    7,
    {},
    [],
    "",
    "http://hooks.shop-example.com/",
    "ftp://x.example.org/",
    "x".repeat(3_000),
  ])("%j is not an https URL at all", (url) => {
    expect(closed.checkText(url)).toMatchObject({ ok: false, malformed: true });
  });

  it.each([
    ["https://hooks.shop-example.com./", "HOST_TRAILING_DOT"],
    ["https://hooks.shop-example.com:/", "URL_NOT_CANONICAL"],
    ["https://hooks.shop-example.com:0443/", "URL_NOT_CANONICAL"],
    ["https://hooks.shop-example.com:8443/", "URL_PORT"],
    ["https://metadata.google.internal/", "HOST_FORBIDDEN"],
    ["https://metadata.goog/", "HOST_FORBIDDEN"],
    ["https://a.b.metadata.tencentyun.com/", "HOST_FORBIDDEN"],
    ["https://-a.shop-example.com/", "HOST_INVALID"],
    ["https://a.shop-example.com/\u00e9", "URL_CHARSET"],
    ["https://a.shop-example.com/ b", "URL_CHARSET"],
    ["https://93.184.215.99/", "SELF_CONNECTION"],
  ])("%s is refused: %s", (url, reason) => {
    expect(closed.checkText(url)).toMatchObject({ ok: false, malformed: false, reason });
  });

  it("is refused for every zone that means something inside, at any depth", () => {
    for (const zone of "localhost local localdomain internal intranet private corp home lan arpa test invalid example onion alt svc consul".split(
      " ",
    ))
      for (const host of [`a.${zone}`, `a.b.${zone.toUpperCase()}`])
        expect(reasonOf(closed, `https://${host}/`)).toBe("HOST_FORBIDDEN");
  });

  it("says nothing of the URL in its messages", () => {
    const verdict = closed.checkText("https://user:hunter2@hooks.shop-example.com/");
    expect(JSON.stringify(verdict)).not.toContain("hunter2");
  });
});

describe("an inner address", () => {
  const inner = fc.oneof(
    fc.tuple(fc.constantFrom(10, 127, 0), fc.nat(255), fc.nat(255), fc.nat(255)),
    fc.tuple(fc.constant(192), fc.constant(168), fc.nat(255), fc.nat(255)),
    fc.tuple(fc.constant(169), fc.constant(254), fc.nat(255), fc.nat(255)),
    fc.tuple(fc.constant(172), fc.integer({ min: 16, max: 31 }), fc.nat(255), fc.nat(255)),
    fc.tuple(fc.constant(100), fc.integer({ min: 64, max: 127 }), fc.nat(255), fc.nat(255)),
  );
  const part = (value: number): string[] => [
    String(value),
    `0${value.toString(8)}`,
    `0x${value.toString(16)}`,
    `000${value}`,
  ];
  const wide = (text: string): string =>
    text.replaceAll(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit)));
  const encoded = (text: string): string =>
    text.replaceAll(/./g, (one) => `%${one.charCodeAt(0).toString(16).padStart(2, "0")}`);

  it("is refused in every spelling of IPv4", () => {
    const spelling = fc
      .tuple(inner, fc.array(fc.nat(3), { minLength: 4, maxLength: 4 }), fc.nat(3))
      .map(([octets, base, form]) => {
        const [a, b, c, d] = octets;
        const short = [
          [a, b, c, d],
          [a, b, c * 256 + d],
          [a, b * 65_536 + c * 256 + d],
          [a * 2 ** 24 + b * 65_536 + c * 256 + d],
        ];
        return (short[form] ?? octets).map((value, i) => part(value)[base[i] ?? 0]).join(".");
      });
    fc.assert(
      fc.property(
        spelling,
        fc.constantFrom("", ".", ":443", ":443."),
        fc.constantFrom("plain", "wide", "encoded"),
        (ip, end, how) => {
          const host = how === "plain" ? ip : how === "wide" ? wide(ip) : encoded(ip);
          for (const lead of ["https://", "https://a@", "HTTPS://", "https:/", "https:///", "https:\\\\", " https://"])
            expect([lead + host + end, closed.checkText(`${lead}${host}${end}/x`).ok]).toEqual([
              lead + host + end,
              false,
            ]);
        },
      ),
      { numRuns: 500 },
    );
  });

  it("is refused in every spelling of IPv6 that carries it", () => {
    fc.assert(
      fc.property(inner, ([a, b, c, d]) => {
        const tail = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
        for (const prefix of ["::", "::ffff:", "::ffff:0:", "64:ff9b::", "64:ff9b:1::", "0:0:0:0:0:ffff:", "::5efe:"])
          for (const host of [`[${prefix}${tail}]`, `[${prefix}${a}.${b}.${c}.${d}]`.toUpperCase()])
            expect([host, closed.checkText(`https://${host}/`).ok]).toEqual([host, false]);
        expect(closed.checkText(`https://[2002:${tail}::]/`).ok).toBe(false);
      }),
    );
  });

  it("never comes out of any text that passes", () => {
    const piece = fc.constantFrom(
      ..."https:// / \\ @ : . # ? % 127.0.0.1 0x7f 2130706433 localhost [::1] ::1 [ ] %2f %00 %40 a.shop-example.com 。 ① \t \n ; & 443".split(
        " ",
      ),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const verdict = closed.checkText(`https://${pieces.join("")}`);
        if (!verdict.ok) return;
        // WHATWG and a reading by RFC 3986 agree on the host.
        const plain = /^https:\/\/([^/?#]+)/.exec(verdict.href)?.[1];
        expect(plain).toBe(verdict.hostname);
        expect(verdict.hostname).not.toMatch(/^127\.0\.0\.1$|(?:^|\.)localhost$|^\[::/);
      }),
      { numRuns: 5_000 },
    );
  });
});

describe("what an operator allows", () => {
  it("is read, or told what is wrong with it", () => {
    const good = [
      "10.2.0.0/16:8443",
      "127.0.0.1:*",
      "localhost:*",
      "[fd00::/8]:8443",
      "[::1]:*",
      "[::1]/128:1",
      "fd00::/8",
      "hooks.corp.lan",
      "::1",
    ];
    expect(checkAllow(good)).toEqual([]);
    const bad = [
      "",
      "10.0.0.0/33",
      "10.0.0.0/8:0",
      "10.0.0.0/8:65536",
      "a b",
      "*.corp.lan",
      "https://x.y",
      "2130706433",
      "0x7f.1",
      "1.2.3",
      "[::1]:x",
      "[fd00::/129]",
      "x:",
      "::1:*x",
    ];
    expect(checkAllow(bad).map(({ path }) => path)).toEqual(bad.map((_, i) => `guard.allow[${i}]`));
  });

  it("opens addresses at the port given, 443 when none is, and no name", () => {
    const guard = guardWith(["10.2.0.0/16:8443", "127.0.0.1", "[fd00::/8]:*"]);
    expect(reasonOf(guard, "https://10.2.3.4:8443/")).toBe("OK");
    expect(reasonOf(guard, "https://10.2.3.4/")).toBe("IP_NOT_PUBLIC");
    expect(reasonOf(guard, "https://10.3.0.1:8443/")).toBe("IP_NOT_PUBLIC");
    expect(reasonOf(guard, "https://127.0.0.1/")).toBe("OK");
    expect(reasonOf(guard, "https://127.0.0.1:444/")).toBe("IP_NOT_PUBLIC");
    expect(reasonOf(guard, "https://[fd12::1]:9999/")).toBe("OK");
    expect(reasonOf(guard, "https://localhost/")).toBe("HOST_FORBIDDEN");
  });

  it("opens addresses also for names that resolve into them", async () => {
    const guard = guardWith(["10.2.0.0/16:8443"], [443], {
      "in.shop-example.com": ["10.2.0.1"],
      "out.shop-example.com": ["93.184.215.14"],
      "both.shop-example.com": ["10.2.0.1", "10.9.0.1"],
    });
    expect(await guard.register("https://in.shop-example.com:8443/")).toMatchObject({ ok: true });
    expect(await guard.register("https://in.shop-example.com/")).toMatchObject({ reason: "IP_NOT_PUBLIC" });
    expect(await guard.register("https://out.shop-example.com:8443/")).toMatchObject({ reason: "URL_PORT" });
    expect(await guard.register("https://both.shop-example.com:8443/")).toMatchObject({ reason: "DNS_MIXED" });
    expect(await guard.register("https://nobody.shop-example.com:9000/")).toMatchObject({ reason: "URL_PORT" });
  });

  it("opens a host for itself alone, with all that it resolves to but the sensitive addresses", async () => {
    const guard = guardWith(["hooks.corp.lan:*", "redis"], [443], {
      "hooks.corp.lan": ["10.0.0.1", "93.184.215.99"],
      redis: ["169.254.169.254"],
    });
    expect(await guard.register("https://hooks.corp.lan:8443/")).toMatchObject({ ok: true });
    expect(reasonOf(guard, "https://sub.hooks.corp.lan/")).toBe("HOST_FORBIDDEN");
    expect(reasonOf(guard, "https://redis:8443/")).toBe("URL_PORT");
    expect(await guard.register("https://redis/")).toMatchObject({ reason: "IP_NOT_PUBLIC" });
    const both = guardWith(["redis", "169.254.0.0/16"], [443], { redis: ["169.254.169.254"] });
    expect(await both.register("https://redis/")).toMatchObject({ ok: true });
  });

  it.each([
    "0.0.0.0",
    "169.254.169.254",
    "224.0.0.1",
    "168.63.129.16",
    "100.100.100.200",
    "::",
    "fe80::1",
    "ff02::1",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "::ffff:10.0.0.1",
  ])("does not open %s by a host entry", async (address) => {
    const guard = guardWith(["hooks.corp.lan"], [443], { "hooks.corp.lan": [address] });
    expect(await guard.register("https://hooks.corp.lan/")).toMatchObject({ ok: false, reason: "IP_NOT_PUBLIC" });
  });

  it("opens no port 0, which nobody can call, whatever the entry", async () => {
    const guard = guardWith(["localhost:*", "127.0.0.1:*", "hooks.shop-example.com:*"]);
    for (const host of ["localhost", "127.0.0.1", "hooks.shop-example.com"]) {
      expect(reasonOf(guard, `https://${host}:1/`)).toBe("OK");
      const verdict = await guard.register(`https://${host}:0/`);
      expect(verdict).toMatchObject({ ok: false, reason: "URL_PORT" });
      expect(verdict).not.toHaveProperty("allow");
    }
  });

  it("refuses to be built from what cannot be read", () => {
    expect(() => guardWith(["nope/8"])).toThrow("nope/8");
    expect(() => createGuard({ allow: [], ports: [443], clock: testClock(), ca: "not PEM" })).toThrow("guard.ca");
  });
});

describe("registration", () => {
  it("accepts a name that has not answered within 3 s", async () => {
    const clock = testClock();
    const guard = createGuard({ allow: [], ports: [443], clock, resolver: () => new Promise(() => undefined) });
    const registering = guard.register("https://slow.shop-example.com/");
    await clock.whenSleeping();
    expect(clock.sleeping()).toEqual([clock.now() + 3_000]);
    await clock.advance(3_000);
    expect(await registering).toMatchObject({ ok: true });
    expect(clock.sleeping()).toEqual([]);
  });

  it("leaves no timer behind when the name answers", async () => {
    const clock = testClock();
    const guard = createGuard({ allow: [], ports: [443], clock, resolver: () => Promise.resolve(["8.8.8.8"]) });
    expect(await guard.register("https://quick.shop-example.com/")).toMatchObject({ ok: true });
    expect(clock.sleeping()).toEqual([]);
  });
});
