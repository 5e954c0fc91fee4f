// Webhooks that come in, over real sockets: what the server adds to the source, and what operators see.
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { hmac, slack, webhooks } from "../../../plugins/source/webhooks.ts";
import { http } from "../../../plugins/source/http.ts";
import { startReceiver, type Receiver } from "../../support/receiver.ts";
import { startRelay, TEST_KEYS, type TestRelay } from "../../support/relay.ts";
import { hexOf, SECRET } from "../../support/webhooks.ts";

const METRICS = "the-scraper-asks-with-this";
let relay: TestRelay;
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
  relay = await startRelay({
    metrics: { token: METRICS },
    limits: {},
    sources: [
      http({ tokens: [TEST_KEYS.publishToken] }),
      webhooks([
        {
          path: "/in/{shop}/orders",
          keyId: "{path.shop}",
          id: "{body.id}",
          type: "order.{body.kind}",
          verify: hmac({ secret: SECRET, header: "X-Signature" }),
        },
        { path: "/in/slack", keyId: "key_1", verify: slack({ secret: SECRET }), cloudEvents: true },
      ]),
    ],
  });
});
afterAll(async () => {
  await relay[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});

const post = async (path: string, body: string, headers: Readonly<Record<string, string>> = {}) => {
  const all = { "content-type": "application/json", ...headers };
  const {
    statusCode,
    headers: answered,
    body: answer,
  } = await request(relay.url + path, { method: "POST", body, headers: all });
  return { status: statusCode, headers: answered, text: await answer.text() };
};
const signed = (path: string, body: string) => post(path, body, { "x-signature": hexOf(SECRET, body) });

it("delivers a webhook with its body unchanged, once", async () => {
  await relay.subscribe(receiver.url(), {}, "acme");
  const body = '{ "id" : "o-1", "kind":"paid","n":1.0 }';
  const first = await signed("/in/acme/orders", body);
  expect(first).toMatchObject({ status: 200, text: "", headers: { "relay-event-id": "in:acme:orders:o-1" } });
  expect((await signed("/in/acme/orders", body)).status).toBe(200);
  await relay.idle();
  expect(receiver.requests).toHaveLength(1);
  const [got] = receiver.requests;
  expect(got?.body.toString()).toContain(`"type":"order.paid"`);
  expect(got?.body.toString().endsWith(`,"data":${body}}`)).toBe(true);
});

it("answers every forger alike, and counts failures by address", async () => {
  const body = '{"id":"o-2","kind":"paid"}';
  const answers = [
    await post("/in/acme/orders", body),
    await post("/in/acme/orders", body, { "x-signature": "" }),
    await post("/in/acme/orders", body, { "x-signature": hexOf("other", body) }),
    await post("/in/acme/orders", "", { "x-signature": hexOf(SECRET, body) }),
    await post("/in/none/orders", "x".repeat(1_000_000)),
  ];
  const plain = answers.map(({ status, headers, text }) => {
    const { date: _date, "x-request-id": id, "content-length": _length, connection: _connection, ...rest } = headers;
    const { "keep-alive": _keepAlive, ...kept } = rest;
    return JSON.stringify([status, kept, text.replace(String(id), "")]);
  });
  expect(new Set(plain).size).toBe(1);
  expect(answers[0]?.status).toBe(401);
  // 300 a minute of one address, as for every failed authentication; the right ones are never refused by it.
  let last = 0;
  for (let i = 0; i < 300; i++) last = (await post("/in/acme/orders", body)).status;
  expect(last).toBe(429);
  expect((await signed("/in/acme/orders", body)).status).toBe(200);
});

it("is shown with what was accepted and why the last one was refused", async () => {
  const { json } = await relay.call("GET", "/relay/status");
  expect(json.data.sources).toMatchObject([
    {
      source: "webhooks",
      path: "/in/{shop}/orders",
      key: "{path.shop}",
      verifiedBy: "hmac",
      accepted: 2,
      repeated: 1,
      lastRefusal: "there is no header X-Signature",
    },
    { path: "/in/slack", accepted: 0, refused: 0 },
  ]);
  const metrics = await request(`${relay.url}/metrics`, { headers: { authorization: `Bearer ${METRICS}` } });
  const text = await metrics.body.text();
  expect(text).toContain('relay_source_webhooks_total{path="/in/{shop}/orders",result="accepted"} 2');
  expect(text).toContain('relay_accepted_total{source="webhooks"} 2');
});

it("answers OPTIONS only where CloudEvents come", async () => {
  const ask = async (path: string) =>
    await request(relay.url + path, { method: "OPTIONS", headers: { "webhook-request-origin": "a.example" } });
  const allowed = await ask("/in/slack");
  expect([allowed.statusCode, allowed.headers["webhook-allowed-origin"], allowed.headers.allow]).toEqual([
    200,
    "a.example",
    "POST, OPTIONS",
  ]);
  const refused = await ask("/in/acme/orders");
  expect([refused.statusCode, refused.headers.allow]).toEqual([405, "POST"]);
  expect((await ask("/events")).statusCode).toBe(405);
  await Promise.all([allowed, refused].map(({ body }) => body.dump()));
});
