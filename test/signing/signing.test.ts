import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { describe, expect, it } from "vitest";
import { createHash, createHmac } from "node:crypto";
import { signedHeaders } from "../../core/signing/headers.ts";
import { newSecret, signingKey } from "../../core/signing/secret.ts";
import { Signer } from "../../core/signing/signer.ts";
import { verifyHex, verifyStandard } from "../../core/signing/verify.ts";
import { sealedFor } from "../../core/model/credentials.ts";
import { secretAad, type Subscription } from "../../core/model/subscription.ts";
import { testClock } from "../support/clock.ts";

const event = { eventId: "evt_1", type: "deposit:paid", attempt: 1, cycle: 0 };
const subscriptionOf = (over: Partial<Subscription>): Subscription => ({
  id: "sub_1",
  keyId: "key_1",
  url: "https://hooks.example.com/",
  events: ["*"],
  status: "active",
  createdAt: 0,
  updatedAt: 0,
  generation: 0,
  secrets: [],
  ...over,
});
const bodyOf = (text: string): Uint8Array => Buffer.from(text, "utf8");

describe("signed headers", () => {
  it("are accepted by the official standardwebhooks and svix packages, for any body", () => {
    fc.assert(
      fc.property(fc.json(), (data) => {
        const secret = newSecret();
        const headers = signedHeaders({ ...event, body: bodyOf(data) }, [signingKey(secret)], Date.now());
        new Webhook(secret).verify(data, headers);
        new SvixWebhook(secret).verify(data, headers);
        expect(verifyStandard(bodyOf(data), headers, secret)).toBe(true);
        expect(verifyHex(bodyOf(data), headers, secret)).toBe(true);
      }),
      { numRuns: 50 },
    );
  });

  it.each<[string, (sent: Record<string, string>) => Parameters<typeof verifyHex>[1]]>([
    ["an object with names in lower case", (sent) => Object.fromEntries(new Headers(sent))],
    ["an object with names as they were sent", (sent) => sent],
    ["Fetch's Headers", (sent) => new Headers(sent)],
    ["a Map", (sent) => new Map(Object.entries(sent))],
    ["a list of pairs", (sent) => Object.entries(sent)],
    ["lists of values", (sent) => Object.fromEntries(Object.entries(sent).map(([name, value]) => [name, [value]]))],
  ])("are found in %s, for a body of any kind", (_carrier, carried) => {
    const secret = newSecret();
    const text = '{"name":"José"}';
    const bytes = new TextEncoder().encode(text);
    const headers = carried(signedHeaders({ ...event, body: bytes }, [signingKey(secret)], Date.now()));
    for (const body of [bytes, Buffer.from(bytes), bytes.buffer, new DataView(bytes.buffer), text]) {
      expect([verifyStandard(body, headers, secret), verifyHex(body, headers, secret)]).toEqual([true, true]);
    }
    for (const body of ["{}", new ArrayBuffer(2)])
      expect([verifyStandard(body, headers, secret), verifyHex(body, headers, secret)]).toEqual([false, false]);
  });

  it("carry the hex HMAC-SHA256 of the raw body under the whole secret text", () => {
    const secret = newSecret();
    const headers = signedHeaders({ ...event, body: bodyOf("{}") }, [signingKey(secret)], 0);
    expect(headers["X-Relay-Webhook-Signature"]).toBe(createHmac("sha256", secret).update("{}").digest("hex"));
    expect(headers["Content-Digest"]).toBe(`sha-256=:${createHash("sha256").update("{}").digest("base64")}:`);
    expect(headers["X-Relay-Replay"]).toBeUndefined();
  });

  it("are signed by both secrets during an overlap, each accepted alone", () => {
    const [fresh, old] = [newSecret(), newSecret()];
    const headers = signedHeaders(
      { ...event, body: bodyOf("{}"), cycle: 2 },
      [signingKey(fresh), signingKey(old)],
      Date.now(),
    );
    for (const secret of [fresh, old]) {
      new Webhook(secret).verify("{}", headers);
      expect(verifyHex(bodyOf("{}"), headers, secret)).toBe(true);
    }
    expect(headers["X-Relay-Replay"]).toBe("2");
    expect(verifyHex(bodyOf("{}"), headers, newSecret())).toBe(false);
  });

  it("cannot be overruled by static headers of the subscription", () => {
    const secret = newSecret();
    const names = ["webhook-id", "X-Relay-Attempt", "x-relay-event", "Accept-Encoding", "user-agent", "X-Mine"];
    const sub = subscriptionOf({
      secrets: [{ version: 1, sealed: secret, createdAt: 0 }],
      headers: Object.fromEntries(names.map((name) => [name, "evil"])),
    });
    const signer = new Signer({ keys: { open: (sealed) => sealed }, clock: testClock() });
    const headers = signer.sign(sub, { ...event, body: bodyOf("{}") }, 0);
    expect(headers).toMatchObject({ "webhook-id": "evt_1", "X-Relay-Attempt": "1", "x-mine": "evil" });
    const lower = Object.keys(headers).map((name) => name.toLowerCase());
    expect(new Set(lower).size).toBe(lower.length);
    expect(Object.values(headers).filter((value) => value === "evil")).toHaveLength(1);
  });

  it("ask for any media type, unless the subscription asks for one", () => {
    const accepts = (headers?: Readonly<Record<string, string>>): readonly (readonly [string, string])[] => {
      const sub = subscriptionOf({ secrets: [{ version: 1, sealed: newSecret(), createdAt: 0 }], headers });
      const signer = new Signer({ keys: { open: (sealed) => sealed }, clock: testClock() });
      const signed = signer.sign(sub, { ...event, body: bodyOf("{}") }, 0);
      return Object.entries(signed).filter(([name]) => /^accept$/i.test(name));
    };
    expect(accepts()).toEqual([["Accept", "*/*"]]);
    expect(accepts({ "X-Mine": "1" })).toEqual([["Accept", "*/*"]]);
    expect(accepts({ aCCept: "text/plain" })).toEqual([["Accept", "text/plain"]]);
  });

  it("refuse to exist without a live secret", () => {
    expect(() => signedHeaders({ ...event, body: bodyOf("{}") }, [], 0)).toThrow(/live secret/);
  });
});

describe("verification", () => {
  it("refuses a changed body, an old timestamp and a missing header", () => {
    const secret = newSecret();
    const headers = signedHeaders({ ...event, body: bodyOf("{}") }, [signingKey(secret)], 1_000_000_000);
    expect(verifyStandard(bodyOf("{}"), headers, secret, 1_000_000_000 + 301_000)).toBe(false);
    expect(verifyStandard(bodyOf("{} "), headers, secret, 1_000_000_000)).toBe(false);
    expect(verifyStandard(bodyOf("{}"), {}, secret)).toBe(false);
    expect(verifyHex(bodyOf("{}"), {}, secret)).toBe(false);
  });

  it.each(["", "whsec_", "whsec_$", " "])("accepts nothing by %j, which anybody could sign with", (secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
    const forged = {
      "webhook-id": "evt_1",
      "webhook-timestamp": "1000000",
      "webhook-signature": `v1,${createHmac("sha256", key).update("evt_1.1000000.{}").digest("base64")}`,
      "x-relay-webhook-signature": createHmac("sha256", secret).update("{}").digest("hex"),
    };
    expect(verifyStandard(bodyOf("{}"), forged, secret, 1_000_000_000)).toBe(false);
    expect(verifyHex(bodyOf("{}"), forged, secret)).toBe(false);
  });
});

describe("the signer", () => {
  it("opens each secret once per version of the subscription and drops an expired one", () => {
    const opened: string[] = [];
    const secrets = { a: newSecret(), b: newSecret() };
    const signer = new Signer({
      keys: {
        open: (sealed, aad) => {
          opened.push(aad);
          return secrets[sealed as "a" | "b"];
        },
      },
      clock: testClock(0),
    });
    const sub = subscriptionOf({
      secrets: [
        { version: 2, sealed: "a", createdAt: 0 },
        { version: 1, sealed: "b", createdAt: 0, expiresAt: 1_000 },
      ],
    });
    const during = signer.sign(sub, { ...event, body: bodyOf("{}") }, 999);
    const after = signer.sign(sub, { ...event, body: bodyOf("{}") }, 1_000);
    expect(during["X-Relay-Webhook-Signature-Previous"]).toBeDefined();
    expect(after["X-Relay-Webhook-Signature-Previous"]).toBeUndefined();
    expect(opened).toEqual([2, 1].map((version) => sealedFor(secretAad("key_1", "sub_1", version), sub.url)));
  });

  it("leaves out a stored header whose name is reserved by now: its attempts could not be sent", () => {
    const signer = new Signer({
      keys: { open: (sealed) => (sealed === "s" ? newSecret() : sealed) },
      clock: testClock(),
    });
    const sub = { id: "sub_1", keyId: "key_1", secrets: [{ version: 1, sealed: "s", createdAt: 0 }] };
    const headers = { "Keep-Alive": "x", "HTTP2-Settings": "y", "X-Own": "z" };
    const signed = signer.sign({ ...sub, headers } as unknown as Subscription, { ...event, body: bodyOf("{}") }, 0);
    expect(signed).toMatchObject({ "x-own": "z" });
    expect(signed).not.toHaveProperty(["keep-alive"]);
    expect(signed).not.toHaveProperty(["http2-settings"]);
  });
});
