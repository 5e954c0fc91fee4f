// A delivery as it is on the wire, byte by byte: the request line, every header, the body.
import { createServer, type TLSSocket } from "node:tls";
import { createHash, createHmac } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { describe, expect, it } from "vitest";
import { memory, sqlite } from "../../config/index.ts";
import { VERSION } from "../../core/model/version.ts";
import { loopbackCertificate } from "../support/certificates.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay, TEST_KEYS } from "../support/relay.ts";
import { request } from "undici";

const HOOKS = "/api-keys/key_1/webhooks";

/** A TLS server that keeps every byte and answers 200 to each request that is whole. */
async function wiretap() {
  const { key, cert } = await loopbackCertificate();
  const heard: string[] = [];
  const waiting: (() => void)[] = [];
  const sockets = new Set<TLSSocket>();
  const server = createServer({ key, cert }, (socket) => {
    sockets.add(socket);
    let text = "";
    socket.setEncoding("latin1");
    socket.on("error", () => undefined);
    socket.on("data", (part: string) => {
      text += part;
      const end = text.indexOf("\r\n\r\n");
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, end))?.[1]);
      if (end < 0 || text.length < end + 4 + length) return;
      heard.push(text);
      text = "";
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
      for (const tell of waiting.splice(0)) tell();
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    heard,
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async whenHeard(count: number) {
      while (heard.length < count) await new Promise<void>((resolve) => waiting.push(resolve));
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

const sha256 = (body: string): string => createHash("sha256").update(body, "latin1").digest("base64");
const hmac = (key: string, body: string): string => createHmac("sha256", key).update(body, "latin1").digest("hex");

describe("the wire", () => {
  it("carries exactly this, and nothing that was not asked for", async () => {
    await using tap = await wiretap();
    await using relay = await startRelay({ storage: memory() });
    const { secret } = await relay.subscribe(`${tap.url}/in?a=%20b&c`, { headers: { "X-Tenant": "acme" } });
    const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const body = `{"id":"order:1","type":"deposit:paid","keyId":"key_1","createdAt":"2026-02-03T04:05:06Z","data":{"é":1.0}}`;
    const published = await relay.publish(body, { traceparent });
    expect(published.status, published.text).toBe(202);
    await tap.whenHeard(1);
    const [head = "", sent = ""] = (tap.heard[0] as string).split("\r\n\r\n");
    const [line, ...lines] = head.split("\r\n");
    expect(line).toBe("POST /in?a=%20b&c HTTP/1.1");
    const expected = body.replace("04:05:06Z", "04:05:06.000Z");
    expect(Buffer.from(sent, "latin1").toString()).toBe(expected);
    const headers = Object.fromEntries(
      lines.map((one) => [one.slice(0, one.indexOf(":")), one.slice(one.indexOf(":") + 2)]),
    );
    expect(lines).toHaveLength(Object.keys(headers).length);
    const { "webhook-timestamp": timestamp = "", "webhook-signature": signature, ...rest } = headers;
    expect(rest).toEqual({
      host: new URL(tap.url).host,
      connection: "keep-alive",
      "Content-Type": "application/json",
      "content-length": String(Buffer.byteLength(expected)),
      "Content-Digest": `sha-256=:${sha256(sent)}:`,
      Accept: "*/*",
      "Accept-Encoding": "identity",
      "User-Agent": `Relay/${VERSION}`,
      "X-Relay-Webhook-Signature": hmac(secret, sent),
      "X-Relay-Event": "deposit:paid",
      "X-Relay-Attempt": "1",
      "webhook-id": "order:1",
      "x-tenant": "acme",
      traceparent,
    });
    expect(Math.abs(Number(timestamp) - Date.now() / 1_000)).toBeLessThan(30);
    expect(signature).toMatch(/^v1,[A-Za-z0-9+/]{43}=$/);
  });

  it("carries both secrets in a rotation's overlap, the new one alone after it, and the replay's number", async () => {
    await using receiver = await startReceiver();
    await using relay = await startRelay({ storage: memory() });
    const { id, secret } = await relay.subscribe(receiver.url());
    const token = await relay.token({ mfa: true });
    const rotate = async (overlapSeconds: number): Promise<string> =>
      (await relay.call("POST", `${HOOKS}/${id}/rotate-secret`, { token, body: { overlapSeconds } })).json.data.secret;
    const second = await rotate(3_600);
    const { json } = await relay.publish({ type: "deposit:paid", keyId: "key_1", data: "ü" });
    await receiver.waitFor(1);
    const third = await rotate(0);
    const event = `/api-keys/key_1/events/${json.data.id}`;
    await expect.poll(async () => (await relay.call("GET", event)).json.data.status).toBe("delivered");
    expect((await relay.call("POST", `${event}/replay`, { body: { force: true } })).status).toBe(202);
    await receiver.waitFor(2);
    const [overlap, after] = receiver.requests;
    const verify = (one: typeof overlap, by: string): void => {
      const headers = one?.headers as Record<string, string>;
      for (const webhook of [new Webhook(by), new SvixWebhook(by)]) webhook.verify(one?.body.toString() ?? "", headers);
    };
    for (const by of [secret, second]) verify(overlap, by);
    verify(after, third);
    for (const by of [secret, second]) expect(() => verify(after, by)).toThrow();
    const sign = (by: string): string =>
      createHmac("sha256", by)
        .update(overlap?.body ?? "")
        .digest("hex");
    expect(
      [overlap, after].map((one) => [
        one?.headers["x-relay-webhook-signature"],
        one?.headers["x-relay-webhook-signature-previous"],
        one?.headers["x-relay-replay"],
        one?.headers["x-relay-attempt"],
      ]),
    ).toEqual([
      [sign(second), sign(secret), undefined, "1"],
      [sign(third), undefined, "1", "1"],
    ]);
    // The same event, the same bytes.
    expect(after?.body).toEqual(overlap?.body);
    expect(after?.headers["webhook-id"]).toBe(overlap?.headers["webhook-id"]);
  });
});

/** Any JSON text as people and libraries write it, not only as JSON.stringify does. */
const space = fc.stringMatching(/^[ \t\r\n]{0,3}$/);
const number = fc.oneof(
  fc.stringMatching(/^-?(0|[1-9]\d{0,40})(\.\d{1,20})?([eE][+-]?\d{1,3})?$/),
  fc.constantFrom("-0", "1.0", "1E400", "12345678901234567890", "0.10"),
);
const escaped = fc.constantFrom(
  "\\u0000",
  "\\ud800",
  "\\/",
  '\\"',
  "\\\\",
  "\\n",
  "\\u00e9",
  "\u2028",
  "\u007f",
  "é",
  "😀",
  "<",
  "\ufeff",
);
const text = fc
  .array(fc.oneof(escaped, fc.stringMatching(/^[ !#-[\]-~]{0,6}$/)), { maxLength: 6 })
  .map((parts) => `"${parts.join("")}"`);
const { json: jsonText } = fc.letrec<{ json: string }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    number,
    text,
    fc.constantFrom("true", "false", "null", "{}", "[]", "[ ]", '{"a":1,"a":2}', '{"__proto__":1,"constructor":2}'),
    fc
      .array(
        fc.tuple(space, tie("json"), space).map((three) => three.join("")),
        { maxLength: 4 },
      )
      .map((items) => `[${items.join(",")}]`),
    fc
      .array(
        fc
          .tuple(space, text, space, tie("json"), space)
          .map(([a, name, b, value, c]) => `${a}${name}${b}:${value}${c}`),
        { maxLength: 4 },
      )
      .map((items) => `{${items.join(",")}}`),
  ),
}));

describe("whatever JSON is published as data", () => {
  it("reaches the receiver byte for byte, through storage and retries, and its signature fits", async () => {
    await using receiver = await startReceiver({ script: (_, index) => (index % 3 === 0 ? 500 : 200) });
    await using relay = await startRelay({ storage: sqlite() });
    const { secret } = await relay.subscribe(receiver.url());
    const texts = fc.sample(jsonText, { numRuns: 300, seed: 7 }).filter((one) => Buffer.byteLength(one) < 50_000);
    // One event a request, since a line may hold a line feed inside its data.
    const expected = new Map<string, string>();
    const queue = texts.entries();
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        for (const [n, data] of queue) {
          const id = `n:${n}`;
          const body = ` {"data" :\t${data} ,"keyId":"key_1","type":"a:b","id":"${id}","createdAt":"2026-01-01T00:00:00Z"}\n`;
          const answer = await request(`${relay.url}/events`, {
            method: "POST",
            headers: { authorization: `Bearer ${TEST_KEYS.publishToken}`, "content-type": "application/json" },
            body,
          });
          const got = await answer.body.text();
          expect(answer.statusCode, `${got}\n${data}`).toBe(202);
          expected.set(
            id,
            `{"id":"${id}","type":"a:b","keyId":"key_1","createdAt":"2026-01-01T00:00:00.000Z","data":${data}}`,
          );
        }
      }),
    );
    const ends = new Map<string, number>();
    await expect
      .poll(async () => (await relay.call("GET", "/api-keys/key_1/events?status=pending&limit=1")).json.data.length, {
        timeout: 20_000,
      })
      .toBe(0);
    for (const { headers, body } of receiver.requests) {
      const id = String(headers["webhook-id"]);
      expect(body.toString()).toBe(expected.get(id));
      expect(body.equals(Buffer.from(expected.get(id) ?? ""))).toBe(true);
      expect(headers["x-relay-webhook-signature"]).toBe(createHmac("sha256", secret).update(body).digest("hex"));
      ends.set(id, (ends.get(id) ?? 0) + 1);
    }
    expect(ends.size).toBe(expected.size);
  });
});
