// What providers publish about their signatures, and what the receivers' libraries make.
import { generateKeyPairSync, sign } from "node:crypto";
import { readFileSync } from "node:fs";
import { Webhook as StandardWebhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { describe, expect, it } from "vitest";
import * as all from "../../../plugins/source/webhooks/presets.ts";
import type { Verification } from "../../../plugins/source/webhooks/scheme.ts";
import { testClock } from "../../support/clock.ts";
import { refusal } from "../../support/refusal.ts";
import { type Sent, webhooksBench } from "../../support/webhooks.ts";

const presets = { ...all };

interface Vector {
  readonly preset: "standardWebhooks" | "svix" | "github" | "slack" | "twilio" | "square" | "shopify" | "stripe";
  readonly source: string;
  readonly options: { readonly secret: string; readonly url?: string };
  /** Epoch seconds. */
  readonly now: number;
  readonly query?: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly id?: string;
  readonly type: string;
}

const vectors = JSON.parse(
  readFileSync(new URL("../../fixtures/webhooks/providers.json", import.meta.url), "utf8"),
) as readonly Vector[];

const verificationOf = ({ preset, options }: Vector, more: object = {}): Verification =>
  presets[preset]({ ...options, ...more } as never);

const bench = (verify: Verification, seconds: number) =>
  webhooksBench([{ path: "/in/one", keyId: "key_1", verify }], testClock(seconds * 1_000));

const timed = vectors.filter(({ headers }) => Object.keys(headers).some((name) => /timestamp|stripe/.test(name)));

describe("the preset of a provider", () => {
  it.for(vectors)("takes the request of $source", async (vector) => {
    const made = await bench(verificationOf(vector), vector.now);
    expect((await made.send(vector)).status).toBe(200);
    expect(made.told).toHaveLength(1);
    expect(made.told[0]?.type).toBe(vector.type);
    if (vector.id !== undefined) {
      const [told] = made.told;
      expect(told?.id.startsWith("in-") || told?.id === `in:one:${vector.id}`).toBe(true);
      await made.send(vector);
      expect(made.told).toHaveLength(1);
    }
  });

  it.for(vectors)("refuses it with one byte changed, or another secret: $source", async (vector) => {
    const made = await bench(verificationOf(vector), vector.now);
    const changed = `${vector.body.slice(0, -1)}${vector.body.at(-1) === "4" ? "5" : "4"}`;
    const sents: Sent[] = [
      { ...vector, body: changed },
      { ...vector, body: "" },
      { ...vector, headers: {} },
    ];
    for (const [name, value] of Object.entries(vector.headers))
      if (/sign|hmac/.test(name)) {
        const last = value.at(-2) === "A" ? "B" : "A";
        if (vector.preset !== "stripe")
          sents.push({
            ...vector,
            headers: { ...vector.headers, [name]: `${value.slice(0, -2)}${last}${value.slice(-1)}` },
          });
        sents.push({ ...vector, headers: { ...vector.headers, [name]: "" } });
        sents.push({ ...vector, headers: { ...vector.headers, [name]: `${value.slice(0, -12)}` } });
      }
    for (const sent of vector.preset === "stripe" ? sents.slice(0, 3) : sents)
      expect((await refusal(made.send(sent))).code).toBe("UNAUTHENTICATED");
    const secret = vector.options.secret.startsWith("whsec_") ? "whsec_AAAAAAAA" : "another";
    const other = await bench(verificationOf(vector, { secret }), vector.now);
    expect((await refusal(other.send(vector))).code).toBe("UNAUTHENTICATED");
    expect(made.told).toEqual([]);
  });

  it.for(timed)("refuses it outside its window of time: $source", async (vector) => {
    for (const seconds of [301, -301]) {
      const late = await bench(verificationOf(vector), vector.now + seconds);
      expect((await refusal(late.send(vector))).code).toBe("UNAUTHENTICATED");
      const wide = await bench(verificationOf(vector, { toleranceMs: 302_000 }), vector.now + seconds);
      expect((await wide.send(vector)).status).toBe(200);
    }
  });

  it.for(vectors)("takes it during a rotation, by the old secret and by the new one: $source", async (vector) => {
    const another = vector.options.secret.startsWith("whsec_") ? "whsec_AAAAAAAA" : "another";
    for (const secret of [
      [vector.options.secret, another],
      [another, vector.options.secret],
    ]) {
      const made = await bench(verificationOf(vector, { secret }), vector.now);
      expect((await made.send(vector)).status).toBe(200);
    }
  });
});

describe("a request that the library of its provider has signed", () => {
  const secret = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;
  const body = '{"type":"invoice.paid","data":{"é":1.0}}';
  const at = 1_800_000_000;

  it("is verified, of Svix", async () => {
    const signature = new SvixWebhook(secret).sign("msg_1", new Date(at * 1_000), body);
    const made = await bench(presets.svix({ secret }), at);
    const headers = { "svix-id": "msg_1", "svix-timestamp": String(at), "svix-signature": signature };
    expect((await made.send({ body, headers })).status).toBe(200);
  });

  it("is verified, of Standard Webhooks, beside signatures of other secrets and versions", async () => {
    const signature = new StandardWebhook(secret).sign("msg_1", new Date(at * 1_000), body);
    const made = await bench(presets.standardWebhooks({ secret }), at);
    for (const all of [signature, `v1a,AAAA v1,${"A".repeat(43)}= ${signature}`]) {
      const headers = { "webhook-id": "msg_1", "webhook-timestamp": String(at), "webhook-signature": all };
      expect((await made.send({ body, headers })).status).toBe(200);
    }
  });

  it("is verified by a public key: Standard Webhooks' v1a, and hex over time and body", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const raw = Buffer.from(publicKey.export({ format: "jwk" }).x as string, "base64url");
    const message = Buffer.from(`msg_1.${at}.${body}`);
    const signed = `v1a,${sign(null, message, privateKey).toString("base64")}`;
    const headers = { "webhook-id": "msg_1", "webhook-timestamp": String(at), "webhook-signature": signed };
    for (const key of [`whpk_${raw.toString("base64")}`, raw.toString("hex")]) {
      const made = await bench(presets.standardWebhooks({ publicKey: key }), at);
      expect((await made.send({ body, headers })).status).toBe(200);
      expect((await refusal(made.send({ body: `${body} `, headers }))).code).toBe("UNAUTHENTICATED");
    }
    const discord = presets.ed25519({
      publicKey: raw.toString("hex"),
      header: "X-Signature-Ed25519",
      timestamp: "X-Signature-Timestamp",
      signed: "{timestamp}{body}",
      type: "interaction",
    });
    const made = await bench(discord, at);
    const hex = sign(null, Buffer.from(`${at}${body}`), privateKey).toString("hex");
    const sent = { body, headers: { "x-signature-ed25519": hex, "x-signature-timestamp": String(at) } };
    expect((await made.send(sent)).status).toBe(200);
  });
});
