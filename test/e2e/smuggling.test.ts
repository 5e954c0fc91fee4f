// Heads that two servers in a row could read differently: one answer at most, no second request comes out of one.
import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { kept } from "../support/kept.ts";
import { startRelay } from "../support/relay.ts";

const relay = kept(await startRelay());
const token = await relay.token({ mfa: true });

/** A busy relay takes its time for the first answer; what follows on the same connection comes soon. */
const FIRST_MS = 30_000;
const MORE_MS = 1_500;

/** All that comes back until the connection ends, or nothing more has come for a while. */
function talk(bytes: string | Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(relay.url).port), "127.0.0.1");
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      socket.setTimeout(MORE_MS);
    });
    socket.on("error", () => {});
    socket.setTimeout(FIRST_MS, () => socket.destroy());
    socket.on("close", () => resolve(text));
    socket.write(bytes);
  });
}
const answers = (text: string): string[] =>
  [...text.matchAll(/HTTP\/1\.1 (\d\d\d) /g)].map(([, status]) => status as string);

const HIDDEN = "DELETE /api-keys/key_1/webhooks/sub_hidden HTTP/1.1\r\nHost: x\r\n";
const auth = (): string => `Host: x\r\nAuthorization: Bearer ${token}\r\n`;
const POST = "POST /api-keys/key_1/webhooks HTTP/1.1\r\n";
const inside = (): string => `${HIDDEN}Authorization: Bearer ${token}\r\n\r\n`;

describe("a request within a request", () => {
  it.each<[string, () => string]>([
    ["two lengths", () => `${POST}${auth()}Content-Length: 4\r\nContent-Length: 400\r\n\r\n{}  ${inside()}`],
    ["one length, twice in a list", () => `${POST}${auth()}Content-Length: 4, 4\r\n\r\n{}  ${inside()}`],
    [
      "a length and chunks",
      () => `${POST}${auth()}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${inside()}`,
    ],
    [
      "chunks and a length",
      () => `${POST}${auth()}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n${inside()}`,
    ],
    [
      "chunks spelt with a tab",
      () => `${POST}${auth()}Transfer-Encoding:\tchunked, identity\r\n\r\n0\r\n\r\n${inside()}`,
    ],
    [
      "chunks with a space before the colon",
      () => `${POST}${auth()}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${inside()}`,
    ],
    ["chunks of an unknown kind", () => `${POST}${auth()}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${inside()}`],
    [
      "two transfer encodings",
      () => `${POST}${auth()}Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${inside()}`,
    ],
    ["a signed length", () => `${POST}${auth()}Content-Length: +0\r\n\r\n${inside()}`],
    ["a negative length", () => `${POST}${auth()}Content-Length: -1\r\n\r\n${inside()}`],
    ["a hexadecimal length", () => `${POST}${auth()}Content-Length: 0x0\r\n\r\n${inside()}`],
    ["an endless length", () => `${POST}${auth()}Content-Length: 99999999999999999999\r\n\r\n${inside()}`],
    [
      "a chunk size beyond reason",
      () => `${POST}${auth()}Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n${inside()}`,
    ],
    ["a bare line feed ends the head", () => `${POST}${auth()}X: y\n\n${inside()}`],
    ["a bare carriage return in a header", () => `${POST}${auth()}X: y\rTransfer-Encoding: chunked\r\n\r\n${inside()}`],
    ["a folded header", () => `${POST}${auth()}X: y\r\n Transfer-Encoding: chunked\r\n\r\n${inside()}`],
    ["an empty header name", () => `${POST}${auth()}: y\r\n\r\n${inside()}`],
    ["a NUL in a header", () => `${POST}${auth()}X: \0\r\n\r\n${inside()}`],
    ["a request line with a line feed", () => `POST /api-keys/key_1/webhooks\nHTTP/1.1\r\n${auth()}\r\n${inside()}`],
    ["no version", () => `POST /api-keys/key_1/webhooks\r\n${auth()}\r\n${inside()}`],
    ["a version that is none", () => `POST /api-keys/key_1/webhooks HTTP/9.9\r\n${auth()}\r\n${inside()}`],
    ["HTTP/2 without TLS", () => `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${inside()}`],
  ])("%s: is refused, and what follows is not heard", async (_, bytes) => {
    const found = answers(await talk(bytes()));
    expect(found.length).toBeLessThanOrEqual(1);
    for (const status of found) expect(["400", "411", "413", "417", "431", "501", "505"]).toContain(status);
  });

  it("a body on a GET, a DELETE and an unknown path belongs to them", async () => {
    for (const head of [
      "GET /healthz",
      "DELETE /api-keys/key_1/webhooks/sub_none",
      "GET /nowhere",
      "OPTIONS /events",
    ]) {
      const body = inside();
      const text = await talk(
        `${head} HTTP/1.1\r\n${auth()}Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
      );
      expect([head, answers(text)]).toEqual([head, [expect.stringMatching(/^(200|404|405)$/)]]);
    }
  });

  it("a refused body is not taken for the next request, whether it is read or not", async () => {
    const body = inside();
    for (const type of ["text/plain", "application/json"]) {
      const text = await talk(
        `${POST}${auth()}Content-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
      );
      expect([type, answers(text)]).toEqual([type, [type === "text/plain" ? "415" : "400", "200"]]);
    }
  });

  it("two good requests in one go are two answers, in their order", async () => {
    const text = await talk(
      `GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
    );
    expect(answers(text)).toEqual(["404", "200"]);
  });

  it("what follows a request for an upgrade is answered, or known to be lost", async () => {
    for (const head of ["GET /healthz HTTP/1.1\r\nHost: x\r\n", `${POST}${auth()}Content-Length: 2\r\n`]) {
      const body = head.startsWith("POST") ? "{}" : "";
      const text = await talk(
        `${head}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n${body}GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n`,
      );
      // Node reads nothing more once an upgrade was refused: a client that keeps the connection would wait for ever.
      expect(answers(text).length === 2 || /^connection: close\r$/im.test(text)).toBe(true);
    }
  });

  it("an upgrade is not taken up", async () => {
    const upgrade = await talk(
      `GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n`,
    );
    expect(answers(upgrade)).toEqual(["200"]);
  });

  it("headers that steer other servers change neither path, method, host nor identity", async () => {
    const more = [
      "X-HTTP-Method-Override: DELETE", "X-Original-URL: /relay/status", "X-Rewrite-URL: /relay/status", "X-Forwarded-Host: evil.example",
      "X-Forwarded-Prefix: /x", "Forwarded: for=203.0.113.9;host=evil.example", "X-Real-IP: 203.0.113.9", "X-Forwarded-For: 203.0.113.9",
      "X-User: root", "X-Api-Key: key_1", "Cookie: token=x", `X-Authorization: Bearer ${token}`,
    ]; // prettier-ignore
    const text = await talk(
      `GET /api-keys/key_1/webhooks HTTP/1.1\r\nHost: x\r\n${more.join("\r\n")}\r\nConnection: close\r\n\r\n`,
    );
    expect(answers(text)).toEqual(["401"]);
    const good = await talk(`GET /healthz HTTP/1.1\r\n${auth()}${more.join("\r\n")}\r\nConnection: close\r\n\r\n`);
    expect([answers(good), good.includes("evil.example")]).toEqual([["200"], false]);
  });
});
