// `verifyRequest` reads a request's raw body wherever a framework keeps it, and lets in what the relay signed alone.
import { once } from "node:events";
import { createServer, request as ask, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { signedHeaders } from "../../core/signing/headers.ts";
import { newSecret, signingKey } from "../../core/signing/secret.ts";
import { verifyRequest } from "../../core/signing/verify.ts";

const secret = newSecret();
const TEXT = '{"id":"evt_1","data":{"n": 1.0,"text":"Zürich"}}';
const body = Buffer.from(TEXT);
const event = { eventId: "evt_1", type: "deposit:paid", attempt: 1, cycle: 0, body };
const headers = signedHeaders(event, [signingKey(secret)], Date.now());
const URL = "http://localhost/webhooks";
const fetched = (sent: string | ReadableStream<Uint8Array>, more: Record<string, string> = headers) =>
  new Request(URL, { method: "POST", headers: more, body: sent, duplex: "half" } as RequestInit);

/** Sends a request in pieces, and returns what `use` makes of it as `node:http` hands it out. */
async function served<T>(pieces: readonly Buffer[], use: (request: IncomingMessage) => Promise<T>): Promise<T> {
  const got = Promise.withResolvers<T>();
  const server = createServer((req, res) => {
    use(req).then(got.resolve, got.reject);
    got.promise.finally(() => res.end()).catch(() => undefined);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const client = ask({ port, host: "127.0.0.1", method: "POST", headers });
  client.on("error", () => undefined).on("response", (answer) => answer.resume());
  for (const piece of pieces) client.write(piece);
  client.end();
  try {
    return await got.promise;
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

describe("a request that the relay signed", () => {
  it.each<[string, () => Parameters<typeof verifyRequest>[0]]>([
    ["Fetch", () => fetched(TEXT)],
    ["Fetch, in pieces", () => fetched(ReadableStream.from([body.subarray(0, 41), body.subarray(41)]) as never)],
    ["a framework with the raw bytes as body", () => ({ headers, body })],
    ["a framework with the raw text as body", () => ({ headers: new Headers(headers), body: TEXT })],
    [
      "a platform that keeps the bytes beside what it parsed",
      () => ({ headers, body: { id: "evt_1" }, rawBody: body }),
    ],
  ])("of %s is its text", async (_from, made) => {
    expect(await verifyRequest(made(), secret)).toBe(TEXT);
  });

  it("of node:http is its text, in whatever pieces it comes", async () => {
    expect(await served([body.subarray(0, 30), body.subarray(30)], (req) => verifyRequest(req, secret))).toBe(TEXT);
  });

  it("is refused with another secret, another body, an empty secret and at another time", async () => {
    const late = { now: Date.now() + 600_000 };
    expect(await verifyRequest(fetched(TEXT), newSecret())).toBeUndefined();
    expect(await verifyRequest(fetched(`${TEXT} `), secret)).toBeUndefined();
    expect(await verifyRequest(fetched(TEXT), "")).toBeUndefined();
    expect(await verifyRequest(fetched(TEXT), secret, late)).toBeUndefined();
    expect(await verifyRequest(new Request(URL, { headers }), secret)).toBeUndefined();
  });
});

describe("a request that nobody signed", () => {
  it("is refused before any of it is read", async () => {
    const unsigned = fetched(TEXT, {});
    expect(await verifyRequest(unsigned, secret)).toBeUndefined();
    expect(unsigned.bodyUsed).toBe(false);
  });

  it("is read to the bound and no further", async () => {
    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled++;
        controller.enqueue(new Uint8Array(65_536));
      },
    });
    expect(await verifyRequest(fetched(endless), secret)).toBeUndefined();
    expect(pulled).toBeLessThan(25);
    expect(await verifyRequest(fetched(TEXT), secret, { maxBytes: body.length - 1 })).toBeUndefined();
    expect(await verifyRequest(fetched(TEXT), secret, { maxBytes: body.length })).toBe(TEXT);
  });
});

describe("a body that something has read before", () => {
  it("is a mistake of the receiver's, which is thrown", async () => {
    const used = fetched(TEXT);
    await used.text();
    await expect(verifyRequest(used, secret)).rejects.toThrow(/read or parsed already/);
    await expect(verifyRequest({ headers, body: { id: "evt_1" } }, secret)).rejects.toThrow(TypeError);
    const read = served([body], async (req) => {
      for await (const _ of req);
      return verifyRequest(req, secret);
    });
    await expect(read).rejects.toThrow(/read or parsed already/);
  });
});
