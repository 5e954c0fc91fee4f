import { createHmac, hash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { bodyData } from "../../../core/model/event.ts";
import { Problem } from "../../../core/model/problem.ts";
import { secretFrom } from "../../../core/model/secret-option.ts";
import {
  addresses,
  apiKey,
  basic,
  github,
  hmac,
  slack,
  stripe,
  twilio,
  type WebhookEndpoint,
  webhooks,
} from "../../../plugins/source/webhooks.ts";
import { describeSource } from "../../conformance/source.ts";
import { context } from "../../support/context.ts";
import { refusal } from "../../support/refusal.ts";
import { answered } from "../../support/request.ts";
import { hexOf, requestOf, SECRET, webhooksBench, type WebhooksBench } from "../../support/webhooks.ts";

const plain = hmac({ secret: SECRET, header: "x-signature", type: "order.paid", id: "{body.id}" });
const ENDPOINT: WebhookEndpoint = { path: "/in/shop", keyId: "key_1", verify: plain };

const bench = (more: Partial<WebhookEndpoint> = {}): Promise<WebhooksBench> =>
  webhooksBench([{ ...ENDPOINT, ...more }]);
const signed = (body: string, headers: Readonly<Record<string, string>> = {}) => ({
  body,
  headers: { "x-signature": hexOf(SECRET, body), ...headers },
});
const dataOf = (made: WebhooksBench, at = 0): string => bodyData(made.told[at] as WebhooksBench["told"][0]);

const TEXT = '{ "type":"deposit:paid", "keyId":"key_1",\t"data":{"n":1.0,"é":"\\u00e9","big":12345678901234567890} }';

describe("webhooks() keeps the law of a source:", () => {
  describeSource(it, {
    makes: `{"data":${TEXT}}`,
    async open() {
      const source = await webhooks([ENDPOINT]).setup(context());
      const [route] = source.routes ?? [];
      return {
        source,
        async publish(text) {
          try {
            await answered(route as NonNullable<typeof route>, requestOf(signed(text), "/in/shop"));
            return "acknowledged";
          } catch (error) {
            return error instanceof Problem && error.status < 429 ? "refused" : "later";
          }
        },
        [Symbol.asyncDispose]: () => source.stop(),
      };
    },
    again: (under, text) => under.publish(text),
  });
});

describe("a verified webhook", () => {
  it("becomes an event whose data is the body, byte for byte", async () => {
    const made = await bench();
    for (const body of [TEXT, "[1.0 ,2]", '"text"', "12345678901234567890", '{"a":1,"a":2}', "null"]) {
      const reply = await made.send(signed(body));
      const told = made.told.at(-1);
      expect(reply.status).toBe(200);
      expect(reply.headers).toMatchObject({ "Relay-Durability": "fsync", "Relay-Event-Id": told?.id });
      expect(bodyData(told as WebhooksBench["told"][0])).toBe(body);
      expect(told).toMatchObject({ keyId: "key_1", type: "order.paid" });
    }
    await made.send(signed("", { "content-type": "" }));
    expect(dataOf(made, 6)).toBe("null");
  });

  it("carries another body as text, and what is no text in base64, with its content type", async () => {
    const made = await bench({ id: "{header.x-id}" });
    const send = (bytes: Buffer, type: string) =>
      made.send({
        body: bytes,
        headers: { "content-type": type, "x-signature": hexOf(SECRET, bytes.toString("latin1")) },
      });
    await send(Buffer.from("a=1&b=%20"), "application/x-www-form-urlencoded; charset=utf-8");
    await send(Buffer.from("<a/>"), "application/xml");
    await send(Buffer.from([0, 1, 2, 0x7f]), "application/octet-stream");
    expect([0, 1, 2].map((at) => JSON.parse(dataOf(made, at)) as unknown)).toEqual([
      { contentType: "application/x-www-form-urlencoded; charset=utf-8", text: "a=1&b=%20" },
      { contentType: "application/xml", text: "<a/>" },
      { contentType: "application/octet-stream", base64: "AAECfw==" },
    ]);
  });

  it("loses no byte of text that is not UTF-8, or begins with a mark", async () => {
    const made = await webhooksBench([
      { path: "/in/raw", keyId: "key_1", verify: apiKey({ header: "x-key", key: SECRET }), type: "raw" },
    ]);
    for (const bytes of [Buffer.from([0xff, 0x41]), Buffer.from("\u{feff}é")])
      await made.send({ body: bytes, headers: { "content-type": "text/plain", "x-key": SECRET } });
    expect(JSON.parse(dataOf(made, 0))).toEqual({ contentType: "text/plain", base64: "/0E=" });
    expect(JSON.parse(dataOf(made, 1))).toEqual({ contentType: "text/plain", text: "\u{feff}é" });
  });

  it("carries the headers along that the config names", async () => {
    const made = await bench({ headers: ["X-Shop", "x-none"] });
    await made.send(signed('{"id":1.0}', { "x-shop": "fr" }));
    expect(dataOf(made)).toBe('{"headers":{"x-shop":"fr"},"body":{"id":1.0}}');
    await made.send(signed("hi", { "x-shop": "fr", "content-type": "text/plain" }));
    expect(JSON.parse(dataOf(made, 1))).toEqual({ headers: { "x-shop": "fr" }, contentType: "text/plain", text: "hi" });
  });

  it("takes type, key and id from header, path and body", async () => {
    const made = await webhooksBench([
      {
        path: "/in/{tenant}/shop",
        keyId: "{path.tenant}",
        type: ["{header.x-kind}.{body.event.name}", "{header.x-kind}", "other"],
        verify: plain,
      },
    ]);
    const to = (body: string, headers = {}) =>
      made.send({ ...signed(body, headers), path: "/in/acme/shop", params: { tenant: "acme" } });
    await to('{"id":7,"event":{"name":"made/new"}}', { "x-kind": "or der" });
    await to('{"event":{}}', { "x-kind": "order" });
    await to('{"id":12345678901234567890,"event":{"name":[1]}}');
    await to('{"event":{"name":"a"}}', { "x-kind": "" });
    expect(made.told.map(({ keyId, type, id }) => [keyId, type, id.replace(/^evt_.*/, "evt_")])).toEqual([
      ["acme", "or_der.made.new", "in:acme:shop:7"],
      ["acme", "order", "evt_"],
      ["acme", "other", "evt_"],
      ["acme", "other", "evt_"],
    ]);
    const plainly = await bench({ type: ["{body.constructor.name}", "own"] });
    await plainly.send(signed("{}"));
    expect(plainly.told[0]?.type).toBe("own");
  });

  it("is one event however often its provider repeats it, also in other words", async () => {
    const made = await bench({ verify: stripe({ secret: SECRET }) });
    const send = async (body: string, path = "/in/shop") => {
      const at = String(Math.floor(made.clock.now() / 1_000));
      const headers = { "stripe-signature": `t=${at},v1=${hexOf(SECRET, `${at}.`, body)}` };
      return await made.send({ body, headers, path });
    };
    await send('{"id":"evt_1","type":"a","pending_webhooks":2}');
    await made.clock.advance(60_000);
    expect((await send('{"id":"evt_1","type":"a","pending_webhooks":2}')).status).toBe(200);
    expect((await send('{"id":"evt_1","type":"a","pending_webhooks":1}')).status).toBe(200);
    expect(made.told.map(({ id }) => id)).toEqual(["in:shop:evt_1"]);
    expect(made.said.map(({ message }) => message)).toEqual(["a webhook comes again with other content"]);
    expect(made.source.figures?.()).toMatchObject([{ accepted: 1, repeated: 2, refused: 0 }]);
    // The same id of another path is another event.
    await send('{"id":"evt_1","type":"b"}', "/in/other");
    expect(made.told).toHaveLength(2);
  });

  it("is the same event in another spelling of its path, and under another content type: nobody has signed those", async () => {
    const made = await webhooksBench([{ path: "/in/{tenant}", keyId: "{path.tenant}", verify: plain }]);
    const sent = { path: "/in/acme", params: { tenant: "acme" } };
    await made.send({ ...signed('{"id":7}'), ...sent });
    await made.send({ ...signed('{"id":7}'), ...sent, path: "/in/%61cme" });
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/octet-stream"])
      await made.send({ ...signed('{"id":7}', { "content-type": type }), ...sent });
    expect(made.told.map(({ id }) => id)).toEqual(["in:acme:7"]);
  });

  it("is told what it lacks where no event can be made of it, and the log says so", async () => {
    const made = await bench({ keyId: "{body.shop}", type: "{body.type}" });
    expect((await refusal(made.send(signed('{"type":"a"}')))).paths).toEqual(["keyId"]);
    expect((await refusal(made.send(signed('{"shop":"é","type":"a"}')))).paths).toEqual(["keyId"]);
    expect((await refusal(made.send(signed('{"shop":"s"}')))).paths).toEqual(["type"]);
    expect((await refusal(made.send(signed('{"shop":"s","type":"a"}, "keyId":"other"')))).code).toBe("INVALID_JSON");
    const fixed = await bench();
    for (const body of ["{", '1,"keyId":"other"', `${"[".repeat(70)}${"]".repeat(70)}`])
      expect((await refusal(fixed.send(signed(body)))).code).toBe("INVALID_JSON");
    expect((await refusal(fixed.send(signed('"a"', { "content-encoding": "gzip" })))).code).toBe(
      "UNSUPPORTED_MEDIA_TYPE",
    );
    const long = `"${"x".repeat(300_000)}"`;
    expect((await refusal(fixed.send(signed(long)))).code).toBe("PAYLOAD_TOO_LARGE");
    expect(fixed.source.figures?.()).toMatchObject([{ invalid: 5, lastRefusal: "too large" }]);
    expect(made.said[0]).toMatchObject({
      message: "a webhook cannot be stored",
      level: "warn",
      fields: { path: "/in/shop", code: "VALIDATION_FAILED", why: expect.stringContaining("keyId") },
    });
    expect(made.source.figures?.()).toMatchObject([
      { invalid: 4, lastRefusal: expect.stringContaining("not valid JSON") },
    ]);
    expect(made.told).toEqual([]);
  });

  it("is answered 503 where it is not stored within its time, and is a repeat when it comes again", async () => {
    const made = await bench({ timeoutMs: 2_000 });
    const { accept } = made.intake;
    const gate = Promise.withResolvers<void>();
    await made.source.start(async (request) => (await gate.promise, accept(request)), { durability: "fsync" });
    const late = refusal(made.send(signed('{"id":1}')));
    await made.clock.advance(2_000);
    expect(await late).toMatchObject({ code: "STORAGE_UNAVAILABLE", retryAfter: 5 });
    gate.resolve();
    expect((await made.send(signed('{"id":1}'))).status).toBe(200);
    expect(made.told).toHaveLength(1);
    expect(made.source.figures?.()).toMatchObject([{ later: 1, repeated: 1 }]);
  });
});

describe("a busy relay", () => {
  it("refuses before it reads the body, but nobody who is not verified so far learns that", async () => {
    const made = await bench();
    const busy = (): never => {
      throw new Problem("PROVIDER_BACKPRESSURE", "Busy.", { retryAfter: 1 });
    };
    await made.source.start(made.intake.accept, { durability: "fsync", admit: busy });
    let read = false;
    const [route] = made.source.routes ?? [];
    const body = (): Promise<Uint8Array> => ((read = true), Promise.resolve(Buffer.from("{}")));
    const given = { ...requestOf(signed("{}"), "/in/shop"), body };
    expect((await refusal(answered(route as NonNullable<typeof route>, given))).code).toBe("PROVIDER_BACKPRESSURE");
    expect(read).toBe(false);
    expect((await refusal(made.send({ body: "{}" }))).code).toBe("UNAUTHENTICATED");
    expect(made.source.figures?.()).toMatchObject([{ later: 1, refused: 1 }]);
  });

  it("counts the time that a body takes", async () => {
    const made = await bench({ timeoutMs: 2_000 });
    const gate = Promise.withResolvers<never>();
    await made.source.start(() => gate.promise, { durability: "fsync" });
    const [route] = made.source.routes ?? [];
    const body = async (): Promise<Uint8Array> => (await made.clock.sleep(made.clock.now() + 1_500), Buffer.from("{}"));
    const late = refusal(
      answered(route as NonNullable<typeof route>, { ...requestOf(signed("{}"), "/in/shop"), body }),
    );
    await made.clock.advance(1_500);
    await made.clock.advance(500);
    expect((await late).code).toBe("STORAGE_UNAVAILABLE");
  });
});

describe("a challenge", () => {
  it("of Slack is answered once it is verified, and not stored", async () => {
    const made = await bench({ verify: slack({ secret: SECRET }) });
    const at = String(Math.floor(made.clock.now() / 1_000));
    const body =
      '{"token":"x","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}';
    const headers = { "x-slack-request-timestamp": at, "x-slack-signature": `v0=${hexOf(SECRET, `v0:${at}:`, body)}` };
    expect(await made.send({ body, headers })).toMatchObject({
      status: 200,
      headers: { "Content-Type": expect.stringMatching(/^text\/plain/) },
      body: "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P",
    });
    expect((await refusal(made.send({ body: `${body} `, headers }))).code).toBe("UNAUTHENTICATED");
    expect(made.told).toEqual([]);
  });

  it("of CloudEvents is answered for the origins that the config allows", async () => {
    const cloudEvents = ["eventgrid.azure.net"];
    const made = await bench({ cloudEvents });
    const asked = (origin: string) => made.options({ "webhook-request-origin": origin, "webhook-request-rate": "120" });
    expect((await asked("eventgrid.azure.net")).headers).toMatchObject({
      Allow: "POST, OPTIONS",
      "WebHook-Allowed-Origin": "eventgrid.azure.net",
      "WebHook-Allowed-Rate": "*",
    });
    expect((await asked("evil.example")).headers).not.toHaveProperty("WebHook-Allowed-Origin");
    const open = await bench({ cloudEvents: true });
    expect((await open.options({ "webhook-request-origin": "any.example" })).headers).toMatchObject({
      "WebHook-Allowed-Origin": "any.example",
    });
  });
});

describe("a CloudEvent", () => {
  it("is known by its source and its id, as a whole and in headers", async () => {
    const made = await bench({ cloudEvents: true, verify: hmac({ secret: SECRET, header: "x-signature" }) });
    const whole = '{"specversion":"1.0","id":"1","source":"/shop","type":"com.example/paid","data":{"n":1.0}}';
    await made.send(signed(whole, { "content-type": "application/cloudevents+json" }));
    await made.send(signed(whole, { "content-type": "application/cloudevents+json" }));
    const head = { "ce-specversion": "1.0", "ce-source": "/shop", "ce-type": "com.example.paid" };
    await made.send(signed('{"n":2.0}', { ...head, "ce-id": "2" }));
    await made.send(signed('{"n":2.0}', { ...head, "ce-id": "2", "ce-source": "/other" }));
    await made.send(signed('{"n":2.0}', { ...head, "ce-id": "2" }));
    expect(made.told.map(({ type }) => type)).toEqual(Array(3).fill("com.example.paid"));
    expect([dataOf(made), dataOf(made, 1)]).toEqual([whole, '{"n":2.0}']);
  });
});

describe("what is not verified", () => {
  it("is a body in place of the one whose hash an address has signed", async () => {
    const url = "https://hooks.example.com/in/shop";
    const made = await bench({ verify: twilio({ secret: SECRET, url }) });
    const bodyHash = hash("sha256", '{"a":1}', "hex");
    const signature = createHmac("sha1", SECRET).update(`${url}?bodySHA256=${bodyHash}`).digest("base64");
    const query = `bodySHA256=${bodyHash}`;
    expect((await made.send({ body: '{"a":1}', query, headers: { "x-twilio-signature": signature } })).status).toBe(
      200,
    );
    for (const type of ["application/x-www-form-urlencoded", "application/json", "text/plain"])
      for (const body of ["", "&&", '{"a":2}']) {
        const headers = { "x-twilio-signature": signature, "content-type": type };
        expect((await refusal(made.send({ body, query, headers }))).code).toBe("UNAUTHENTICATED");
      }
    const fields = Array.from({ length: 1_001 }, (_, i) => `f${10_000 + i}=`);
    const many = createHmac("sha1", SECRET)
      .update(url + fields.join("").replaceAll("=", ""))
      .digest("base64");
    const form = { "x-twilio-signature": many, "content-type": "application/x-www-form-urlencoded" };
    expect((await refusal(made.send({ body: fields.join("&"), headers: form }))).code).toBe("UNAUTHENTICATED");
  });

  it("is answered alike, whatever it lacks, and the reason is for the operator", async () => {
    const verify = [
      github({ secret: SECRET }),
      basic({ username: "me", password: SECRET }),
      addresses(["10.0.0.0/8", "::1"]),
    ] as const;
    const made = await bench({ verify });
    const body = "{}";
    const right = {
      "x-hub-signature-256": `sha256=${hexOf(SECRET, body)}`,
      authorization: `Basic ${Buffer.from(`me:${SECRET}`).toString("base64")}`,
    };
    const wrong = { ...right, "x-hub-signature-256": `sha256=${hexOf("other", body)}` };
    const other = { ...right, authorization: `Basic ${Buffer.from("me:other").toString("base64")}` };
    const address = "10.1.2.3";
    const sent = [
      { body, headers: wrong, address },
      { body, headers: other, address },
      { body, headers: { ...right, authorization: "Bearer x" }, address },
      { body, headers: {}, address },
      { body, headers: right, address: "192.0.2.1" },
      { body: "{ }", headers: right, address },
    ];
    const told = [];
    for (const one of sent) told.push((await refusal(made.send(one))).problem);
    expect(new Set(told.map(({ code, detail, extras }) => JSON.stringify([code, detail, extras]))).size).toBe(1);
    expect(made.said.map(({ fields }) => fields["why"])).toEqual([
      "the signature is wrong",
      "the user or the password is wrong",
      "there is no user and password",
      "there is no header x-hub-signature-256",
      "the address may not send",
      "the signature is wrong",
    ]);
    expect(made.said[0]).toMatchObject({
      level: "warn",
      message: "a webhook is refused",
      fields: { path: "/in/shop" },
    });
    expect(JSON.stringify(made.said)).not.toContain(SECRET);
    expect(made.counts.get("relay_source_webhooks_total /in/shop refused")).toBe(6);
    expect(made.source.figures?.()).toMatchObject([
      { path: "/in/shop", key: "key_1", verifiedBy: "github, basic, addresses", lastRefusal: "the signature is wrong" },
    ]);
    expect((await made.send({ body, headers: right, address: "::1" })).status).toBe(200);
  });

  it("writes no more than 20 lines a minute of one address", async () => {
    const made = await bench();
    for (let i = 0; i < 50; i++) await refusal(made.send({ body: "" }));
    expect(made.said).toHaveLength(20);
    await made.clock.advance(60_000);
    expect(made.said.at(-1)).toMatchObject({
      message: "more webhooks were refused than are logged",
      fields: { count: 30 },
    });
  });

  it("is nothing that an API key in the query or a header lets pass", async () => {
    const query = await bench({ verify: apiKey({ query: "key", key: [SECRET, "second-secret"], type: "a" }) });
    expect((await query.send({ body: "1", query: "key=second-secret" })).status).toBe(200);
    for (const one of ["key=", "", "key=x"])
      expect((await refusal(query.send({ body: "1", query: one }))).code).toBe("UNAUTHENTICATED");
    const bearer = await bench({
      verify: apiKey({ header: "Authorization", prefix: "Bearer ", key: SECRET, type: "a" }),
    });
    expect((await bearer.send({ body: "1", headers: { authorization: `Bearer ${SECRET}` } })).status).toBe(200);
    expect((await refusal(bearer.send({ body: "1", headers: { authorization: SECRET } }))).code).toBe(
      "UNAUTHENTICATED",
    );
  });

  it("is judged by secrets that are read elsewhere", async () => {
    const secret = [secretFrom({ env: "OLD" }), secretFrom({ file: "new" })];
    const made = await bench({ verify: github({ secret }) });
    for (const i of [0, 1]) {
      const headers = { "x-hub-signature-256": `sha256=${hexOf(`secret of [0].verify.secret[${i}]`, "{}")}` };
      expect((await made.send({ body: "{}", headers })).status).toBe(200);
    }
  });
});
