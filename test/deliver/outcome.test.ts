import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { judge, retryAfterMs, retryDelayMs } from "../../core/deliver/outcome.ts";
import { createSend, excerptText } from "../../core/deliver/send.ts";
import { endedBy } from "../../core/records/ended-by.ts";
import { scheduleOf, type Subscription } from "../../core/model/subscription.ts";
import type { Reply } from "../../core/ports/transport.ts";
import { testClock } from "../support/clock.ts";

const retry = { attempts: 5, firstDelayMs: 5_000, factor: 4, maxDelayMs: 3_600_000 };
const answer = (status: number, retryAfter?: string): Reply => ({
  kind: "response",
  status,
  retryAfter,
  excerpt: new Uint8Array(),
  truncated: false,
});
const now = 1_800_000_000_000;

describe("the retry policy", () => {
  it("waits 5, 20, 80 and 320 seconds by default, and up to a tenth more", () => {
    expect([1, 2, 3, 4].map((n) => retryDelayMs(n, retry, 0))).toEqual([5_000, 20_000, 80_000, 320_000]);
    expect(retryDelayMs(1, retry, 0.999)).toBeLessThanOrEqual(5_500);
  });

  it("never waits longer than its cap and a tenth", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (n, random) => {
        const wait = retryDelayMs(n, { ...retry, maxDelayMs: 30_000 }, random);
        expect(wait).toBeGreaterThanOrEqual(5_000);
        expect(wait).toBeLessThanOrEqual(33_000);
      }),
    );
  });

  it("waits as long as a schedule lists, and up to a tenth more", () => {
    const listed = scheduleOf([5_000, 300_000, 86_400_000]);
    expect(listed.attempts).toBe(4);
    expect([1, 2, 3].map((n) => retryDelayMs(n, listed, 0))).toEqual([5_000, 300_000, 86_400_000]);
    expect(retryDelayMs(3, listed, 0.999)).toBeLessThanOrEqual(95_040_000);
    const reply: Reply = { kind: "error", error: "timeout", detail: "" };
    expect(judge(reply, { attempt: 4, retry: listed, now, random: 0 })).toEqual({ kind: "exhausted" });
  });

  it("reads Retry-After as seconds or a date, clamped to one second and one hour", () => {
    expect(retryAfterMs("120", now)).toBe(120_000);
    expect(retryAfterMs("0", now)).toBe(1_000);
    expect(retryAfterMs("999999999999", now)).toBe(3_600_000);
    expect(retryAfterMs(new Date(now + 60_000).toUTCString(), now)).toBe(60_000);
    expect(retryAfterMs(new Date(now - 60_000).toUTCString(), now)).toBe(1_000);
    for (const junk of ["", "soon", "-5", "1.5", "5 apples", "NaN", "Infinity"])
      expect(retryAfterMs(junk, now)).toBeUndefined();
    expect(retryAfterMs(undefined, now)).toBeUndefined();
  });
});

describe("the outcome of a reply", () => {
  const standing = { attempt: 1, retry, now, random: 0 };

  it("is delivered for every 2xx and for nothing else", () => {
    for (let status = 100; status < 600; status++) {
      expect(judge(answer(status), standing).kind === "delivered").toBe(status >= 200 && status < 300);
    }
  });

  it("is gone for 410, even on the last attempt", () => {
    expect(judge(answer(410), { ...standing, attempt: 5 })).toEqual({ kind: "gone" });
  });

  it("is a retry for redirects, other errors and every failed stage, until the fifth attempt", () => {
    const replies: Reply[] = [
      answer(301),
      answer(404),
      answer(500),
      { kind: "error", error: "tls", detail: "" },
      { kind: "error", error: "guard", detail: "" },
    ];
    for (const reply of replies) {
      expect(judge(reply, { ...standing, attempt: 4 })).toEqual({ kind: "retry", at: now + 320_000 });
      expect(judge(reply, { ...standing, attempt: 5 })).toEqual({ kind: "exhausted" });
    }
  });

  it("listens to Retry-After on 429 and 503 alone, which makes the wait longer, never shorter", () => {
    expect(judge(answer(503, "60"), standing)).toEqual({ kind: "retry", at: now + 60_000, pauseMs: 60_000 });
    expect(judge(answer(429, "1"), standing)).toEqual({ kind: "retry", at: now + 5_000, pauseMs: 1_000 });
    expect(judge(answer(500, "60"), standing)).toEqual({ kind: "retry", at: now + 5_000 });
    expect(judge(answer(503, "60"), { ...standing, attempt: 5 })).toEqual({
      kind: "exhausted",
      pauseMs: 60_000,
    });
  });
});

describe("the standing of a pending delivery", () => {
  const sub = { status: "active", generation: 2 } as Subscription;

  it("goes on while its subscription is active and of the same generation", () => {
    expect(endedBy(sub, 2)).toBeUndefined();
  });

  it("ends as failed when the subscription is, or meanwhile was, disabled: re-enabling resumes nothing", () => {
    expect(endedBy({ ...sub, status: "disabled" }, 2)).toEqual({ status: "failed", reason: "subscription_disabled" });
    expect(endedBy(sub, 1)).toEqual({ status: "failed", reason: "subscription_disabled" });
  });

  it("ends as cancelled when the subscription is deleted", () => {
    for (const gone of [undefined, { ...sub, deletedAt: 1 }]) {
      expect(endedBy(gone, 2)).toEqual({ status: "cancelled", reason: "subscription_deleted" });
    }
  });
});

describe("the excerpt of a response", () => {
  it("masks signing secrets and the subscription's own header values", () => {
    const text = excerptText(Buffer.from("got whsec_c2VjcmV0 and Bearer tok-123456"), ["Bearer tok-123456"], false);
    expect(text).toBe("got [masked] and [masked]");
  });

  it.each([
    ["got Bearer tok-12", "got Bearer "],
    ['{"key":"tok-12', '{"key":"'],
    ["nothing but tok-123456 ", "nothing but [masked] "],
  ])("leaves out the word that its end cuts off: %s", (shown, kept) => {
    expect(excerptText(Buffer.from(shown), ["Bearer tok-123456"], true)).toBe(kept);
    expect(excerptText(Buffer.from(shown.trimEnd()), ["other-value"], false)).toBe(shown.trimEnd());
  });

  const TOKEN = "tok/123+456=<a&b>'q'";
  const VALUES = [`Bearer ${TOKEN}`, `Basic ${Buffer.from("user:p%ss/word").toString("base64")}`];
  it.each<[string, string]>([
    ["without its scheme", TOKEN],
    ["in a URL", encodeURIComponent(TOKEN)],
    ["in base64", Buffer.from(TOKEN).toString("base64")],
    ["in base64url", Buffer.from(TOKEN).toString("base64url")],
    ["in hex", Buffer.from(TOKEN).toString("hex").toUpperCase()],
    ["as a password", "p%ss/word"],
    ["as credentials", "user:p%ss/word"],
  ])("masks a header value that comes back %s", (_, spelling) => {
    const text = excerptText(Buffer.from(`{"seen": "${spelling}", "ok": false}`), VALUES, false);
    expect(text).toContain("[masked]");
    expect(text).toMatch(/^\{"seen": ".*", "ok": false\}$/);
    for (const shown of [TOKEN, spelling, "123+456", "word", Buffer.from(TOKEN).toString("base64").slice(4, -6)])
      expect(text).not.toContain(shown);
  });

  it("leaves a page that holds no secret as it is, escapes and all", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."ab/\\&%;25u00x#amp".split("")), maxLength: 200 }), (page) => {
        expect(excerptText(Buffer.from(page), ["Bearer zzzzzzzz"], false)).toBe(page);
      }),
    );
  });

  it("masks a value wherever it stands and whatever surrounds it", () => {
    const escape = fc.constantFrom<(text: string) => string>(
      (text) => text,
      encodeURIComponent,
      (text) => Buffer.from(text).toString("hex"),
    );
    const value = fc.string({
      unit: fc.constantFrom(..."abcXYZ019/+=&<'\"%\\-._~".split("")),
      minLength: 6,
      maxLength: 40,
    });
    fc.assert(
      fc.property(value, escape, fc.string(), fc.string(), (secret, spell, before, after) => {
        fc.pre(!`${before}${after}`.includes("whsec_"));
        expect(excerptText(Buffer.from(`${before} ${spell(secret)} ${after}`), [secret], false)).toContain("[masked]");
      }),
      { numRuns: 1_000 },
    );
  });

  it("is text for any bytes", () => {
    fc.assert(fc.property(fc.uint8Array(), (bytes) => typeof excerptText(bytes, [], true) === "string"));
  });

  it("costs little, whatever a receiver answers to the values of its own headers", () => {
    const noise = "%25252541&amp;amp;amp;#65;\\\\\\\\\\\\u0041%26amp%3Bamp;\\\\u0026amp;%255c%255c%5cu0041";
    const answer = Buffer.from((noise.repeat(10) + "6".repeat(2_500) + "X").slice(-4_096));
    const values = Array.from({ length: 20 }, (_, i) => "f".repeat(1_000 + i));
    const from = process.cpuUsage();
    excerptText(answer, values, true);
    // It took four seconds, on the loop that everybody shares.
    expect(process.cpuUsage(from).user / 1_000).toBeLessThan(1_000);
  });
});

describe("what a transport says of a failed attempt", () => {
  it.each(["error", "unavailable"] as const)("is kept without the secrets of the config, and cut: %s", async (kind) => {
    const detail = `no login with ${"s".repeat(600)} ${"x".repeat(600)}`;
    const send = createSend({
      transportOf: () => ({ schemes: [], dispose: async () => {}, send: async () => ({ kind, error: "tls", detail }) }),
      signer: { sign: () => ({}), hidden: () => [], credentials: () => undefined, url: ({ url }) => url },
      clock: testClock(),
      timeoutMs: 1_000,
      hide: (text) => text.replaceAll(/s{600}/g, "[masked]"),
    });
    const event = { id: "evt_1", type: "a:b", ordinal: "0".repeat(20), keyId: "key_1" };
    const loaded = { event, body: new Uint8Array() } as never;
    const turn = { cycle: 0, number: 1 };
    const { reply, attempt } = await send(
      { id: "sub_1", url: "x://y" } as never,
      loaded,
      turn,
      new AbortController().signal,
    );
    expect(reply).toMatchObject({ kind, detail: expect.stringMatching(/^no login with \[masked\] x+$/) as string });
    expect(attempt.detail).toHaveLength(500);
  });
});
