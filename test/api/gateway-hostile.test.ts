// The gateway against clients that mean harm: framing tricks, paths of two meanings, headers that are not theirs to send.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { defaultRows } from "../../config/limits.ts";
import {
  createFindRoute,
  gatewayRoutes,
  mayBeGateway,
  normalPath,
  queryOf,
} from "../../core/api/gateway/request-path.ts";
import { head, sendRaw, startBehind, startGateway, startTcp, statusOf } from "../support/gateway.ts";

const find = createFindRoute(gatewayRoutes(Object.keys(defaultRows)));

describe("framing", () => {
  const cases: readonly (readonly [name: string, lines: readonly string[], body: string])[] = [
    ["both lengths", ["Content-Length: 5", "Transfer-Encoding: chunked"], "0\r\n\r\nGET /v1/health HTTP/1.1\r\n\r\n"],
    ["two lengths", ["Content-Length: 5", "Content-Length: 6"], "helloX"],
    ["two lengths in one", ["Content-Length: 5, 6"], "helloX"],
    ["a signed length", ["Content-Length: +5"], "hello"],
    ["a length in hex", ["Content-Length: 0x5"], "hello"],
    ["a negative length", ["Content-Length: -5"], "hello"],
    ["a space before the colon", ["Content-Length : 5"], "hello"],
    ["a folded header", ["X-A: 1", " Content-Length: 5"], "hello"],
    ["an unknown coding", ["Transfer-Encoding: gzip"], "hello"],
    ["chunked, but not last", ["Transfer-Encoding: chunked, gzip"], "0\r\n\r\n"],
    ["chunked in disguise", ["Transfer-Encoding: xchunked"], "0\r\n\r\n"],
    ["a coding with a tab", ["Transfer-Encoding:\tchunked", "Content-Length: 3"], "0\r\n\r\n"],
    ["two codings in two lines", ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], "0\r\n\r\n"],
    ["a chunk size that is none", ["Transfer-Encoding: chunked"], "zz\r\nhello\r\n0\r\n\r\n"],
    ["a bare line feed", ["X-A: 1\nContent-Length: 5"], "hello"],
    ["a NUL in a header", ["X-A: a\0b"], ""],
  ];
  for (const [name, lines, body] of cases) {
    it(`with ${name} is refused, and nothing of it reaches the upstream`, async () => {
      const reached: Buffer[] = [];
      await using upstream = await startTcp((socket) => socket.on("data", (bytes: Buffer) => reached.push(bytes)));
      await using gateway = await startGateway({ upstream: upstream.url });
      const answer = await sendRaw(
        gateway.port,
        head(["POST /v1/qr/create HTTP/1.1", "Host: x", "Connection: close", ...lines]) + body,
      );
      expect(statusOf(answer)).toBe(400);
      expect(Buffer.concat(reached).toString("latin1")).toBe("");
    });
  }

  it("in a coding beyond chunked is refused with the head, before anything is counted", async () => {
    await using gateway = await startBehind();
    for (const path of ["/v1/qr/create", "/v1/nowhere"]) {
      const lines = [`POST ${path} HTTP/1.1`, "Host: x", "X-API-Key: a", "Transfer-Encoding: gzip, chunked"];
      const answer = await sendRaw(gateway.port, `${head(lines)}0\r\n\r\n`);
      // It is the framing that cannot be read, so this is no matter of media types, and the connection is of no more use.
      expect([statusOf(answer), gateway.upstream.seen.length]).toEqual([400, 0]);
      expect(answer).toMatch(/"code":"VALIDATION_FAILED"/);
      expect(answer).toMatch(/^connection: close\r$/im);
      expect(answer).not.toMatch(/^x-ratelimit-/im);
    }
  });

  it("of a body where none belongs is refused", async () => {
    await using gateway = await startBehind();
    for (const method of ["GET", "HEAD"]) {
      const smuggled = "GET /v1/account/me HTTP/1.1\r\nX-API-Key: victim\r\n\r\n";
      const lines = [`${method} /v1/qr HTTP/1.1`, "Host: x", "Connection: close", `Content-Length: ${smuggled.length}`];
      expect(statusOf(await sendRaw(gateway.port, head(lines) + smuggled))).toBe(400);
    }
    expect(gateway.upstream.seen).toEqual([]);
  });

  it("with trailers loses them, and chunk extensions too", async () => {
    await using gateway = await startBehind();
    const lines = ["POST /v1/qr/create HTTP/1.1", "Host: x", "Connection: close", "Transfer-Encoding: chunked"];
    const body = "5;ext=1\r\nhello\r\n0\r\nX-API-Key: other\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n";
    expect(statusOf(await sendRaw(gateway.port, head([...lines, "Trailer: X-API-Key"]) + body))).toBe(200);
    const [one] = gateway.upstream.seen;
    expect([one?.body.toString(), one?.trailers, one?.headers["trailer"], one?.headers["x-api-key"]]).toEqual([
      "hello",
      {},
      undefined,
      undefined,
    ]);
  });

  it("that asks for an upgrade or a tunnel gets neither", async () => {
    await using gateway = await startBehind();
    const upgrade = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c, websocket", "HTTP2-Settings: AAMAAABk"];
    const lines = ["GET /v1/qr HTTP/1.1", "Host: x", ...upgrade];
    const smuggled = ["GET /v1/scopes HTTP/1.1", "Host: x", "Connection: close"];
    const answer = await sendRaw(gateway.port, head(lines) + head(smuggled));
    expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200"]);
    expect(
      gateway.upstream.seen.map(({ url, headers }) => [url, headers["upgrade"], headers["http2-settings"]]),
    ).toEqual([["/v1/qr", undefined, undefined]]);
    expect(statusOf(await sendRaw(gateway.port, head(["CONNECT /v1/qr HTTP/1.1", "Host: x"])))).toBe(400);
    expect(gateway.upstream.seen).toHaveLength(1);
  });

  it("that waits for 100 Continue gets it, and the upstream is not asked", async () => {
    await using gateway = await startBehind();
    const lines = ["POST /v1/qr/create HTTP/1.1", "Host: x", "Content-Length: 2", "Expect: 100-continue"];
    const answer = await sendRaw(gateway.port, `${head([...lines, "Connection: close"])}{}`);
    expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 100", "HTTP/1.1 200"]);
    expect(gateway.upstream.seen[0]?.headers["expect"]).toBeUndefined();
    const odd = ["GET /v1/qr HTTP/1.1", "Host: x", "Expect: the unexpected", "Connection: close"];
    expect(statusOf(await sendRaw(gateway.port, head(odd)))).toBe(417);
  });

  it("of several requests on one connection keeps them apart", async () => {
    await using gateway = await startBehind({}, (_req, res, { url }) => void res.end(url));
    const post = `${head(["POST /v1/qr/create HTTP/1.1", "Host: x", "Content-Length: 5"])}hello`;
    const answer = await sendRaw(
      gateway.port,
      post +
        head(["GET /v1/qr/b HTTP/1.1", "Host: x"]) +
        head(["GET /v1/qr/c HTTP/1.1", "Host: x", "Connection: close"]),
    );
    expect(answer.match(/\/v1\/qr\/(create|b|c)/g)).toEqual(["/v1/qr/create", "/v1/qr/b", "/v1/qr/c"]);
  });

  it("of the upstream's making cannot pass for two answers", async () => {
    for (const answer of [
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 20\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok",
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
      "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
      "not HTTP at all\r\n\r\n",
      `HTTP/1.1 200 OK\r\nX: ${"a".repeat(100_000)}\r\n\r\n`,
    ]) {
      await using upstream = await startTcp((socket) => socket.on("data", () => socket.end(answer)));
      await using gateway = await startGateway({ upstream: upstream.url });
      const got = await gateway.ask("POST", "/v1/qr/create", { "X-API-Key": "a" });
      expect([got.status, got.json.code], answer.slice(0, 60)).toEqual([502, "UPSTREAM_UNAVAILABLE"]);
      expect(got.headers["x-ratelimit-remaining"]).toBe("15");
    }
  });

  it("of an answer to something else, that the upstream sends unasked, is not taken for the next one's", async () => {
    let asked = 0;
    await using upstream = await startTcp((socket) =>
      socket.on("data", () => {
        asked++;
        const one = (text: string): string => `HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
        socket.write(one("mine") + (asked === 1 ? one("poison") : ""));
      }),
    );
    await using gateway = await startGateway({ upstream: upstream.url });
    for (let i = 0; i < 4; i++) {
      const got = await gateway.ask("GET", "/v1/qr", { "X-API-Key": "a" });
      expect(got.body.toString()).toBe("mine");
    }
  });
});

describe("a request line", () => {
  it("in absolute form is read as a server must, and its host goes before Host", async () => {
    await using gateway = await startBehind();
    const lines = ["GET http://user:pw@pay.example.com/v1/qr?a=1 HTTP/1.1", "Host: evil", "Connection: close"];
    expect(statusOf(await sendRaw(gateway.port, head(lines)))).toBe(200);
    const [one] = gateway.upstream.seen;
    expect([one?.url, one?.headers["x-forwarded-host"], one?.headers.host]).toEqual([
      "/v1/qr?a=1",
      "pay.example.com",
      new URL(gateway.upstream.url).host,
    ]);
  });

  it("with what others take for the end of its query has it encoded", async () => {
    await using gateway = await startBehind();
    const line = (query: string): Buffer =>
      Buffer.from(head([`GET /v1/qr?${query} HTTP/1.1`, "Host: x", "Connection: close"]), "latin1");
    expect(statusOf(await sendRaw(gateway.port, line("a=1#/../x")))).toBe(200);
    expect(gateway.upstream.seen[0]?.url).toBe("/v1/qr?a=1%23/../x");
    expect(statusOf(await sendRaw(gateway.port, line("a=\xe9")))).toBe(400);
  });

  it.each([
    "/v1//qr",
    "//v1/qr",
    "/v1/qr/",
    "/v1/./qr",
    "/v1/x/../qr",
    "/v1/qr/%2e%2e",
    "/v1/qr/%2E",
    "/v1/qr/a%2fb",
    "/v1/qr/a%5cb",
    "/v1/qr/a\\b",
    "/v1/qr/..%5c",
    "/v1/qr/a%00",
    "/v1/qr/a%0d%0aX:1",
    "/v1/qr/%252e%252e",
    "/v1/qr/a%252fb",
    "/v1/qr/%c0%ae%c0%ae",
    "/v1/qr/%ff",
    "/v1/qr/a%",
    "/v1/qr/a%3fb",
    "/v1/qr/a%23b",
    "/v1/qr/a#b",
    "/v1/links/..;/transactions",
    "/v1/links/..%3b/transactions",
    "/v1/qr/a;v=1",
    "/v1/%71r",
    "/v1/qr/create%2f",
    "/%761/qr",
    "/V1/qr",
    "/v1/QR",
    "/v1/health%20",
    "*",
  ])("with the path %s leads nowhere", async (path) => {
    await using gateway = await startBehind();
    const answer = await sendRaw(gateway.port, head([`GET ${path} HTTP/1.1`, "Host: x", "Connection: close"]));
    expect([400, 404]).toContain(statusOf(answer));
    expect(gateway.upstream.seen).toEqual([]);
  });

  it("that encodes the name of an operation is the slug of that name, and never the operation", async () => {
    await using gateway = await startBehind();
    const send = (method: string) =>
      sendRaw(gateway.port, head([`${method} /v1/qr/%63reate HTTP/1.1`, "Host: x", "Connection: close"]));
    expect(await send("GET")).toMatch(/^HTTP\/1.1 200[^]*X-RateLimit-Limit: 60\r\n/);
    expect(gateway.upstream.seen.map(({ method, url }) => [method, url])).toEqual([["GET", "/v1/qr/create"]]);
    expect(statusOf(await send("POST"))).toBe(405);
    expect(gateway.upstream.seen).toHaveLength(1);
  });
});

/** Paths as an attacker would put them together. */
const piece = fc.oneof(
  fc.constantFrom(
    ..."v1 qr links create update delete transactions account me .. . ; % / \\ %2f %2e %25 %5c".split(" "),
  ),
  fc.constantFrom(
    "%252e",
    "%c0%af",
    "%00",
    "?",
    "#",
    "",
    "a",
    "é",
    "%C3%A9",
    "%e2%80%ae",
    "~",
    "@",
    ":",
    "+",
    "%20",
    "V1",
  ),
  fc.string({ maxLength: 3 }),
);
const anyPath = fc.oneof(
  fc.array(piece, { maxLength: 8 }).map((parts) => `/v1/qr/${parts.join("")}`),
  fc.array(piece, { maxLength: 8 }).map((parts) => `/${parts.join("/")}`),
  fc.array(piece, { maxLength: 4 }).map((parts) => `/v1/links/${parts.join("")}/transactions`),
);
const method = fc.constantFrom("GET", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS");

describe("the path that is matched", () => {
  it("is the path that is forwarded: the normal spelling of a normal spelling is itself, and the same operation", () => {
    fc.assert(
      fc.property(anyPath, method, (path, verb) => {
        const normal = normalPath(path);
        if (normal === undefined) return;
        expect(normalPath(normal)).toBe(normal);
        expect(normal).toMatch(/^(\/[A-Za-z0-9\-._~!'()*%]+)+$/);
        const route = find(verb, normal);
        // One more round of decoding, folding and resolving, as careless servers do, leads to the same operation.
        const careless = new URL(`http://x${decodeURIComponent(normal).replaceAll(/\/+/g, "/")}`).pathname;
        expect(find(verb, normalPath(careless) ?? "")).toBe(route);
      }),
      { numRuns: 5_000 },
    );
  });

  it("is forwarded as it was counted, through real sockets", async () => {
    await using gateway = await startBehind({
      rows: Object.fromEntries(
        Object.entries(defaultRows).map(([name, row]) => [name, row && { perMinute: 1_000_000, per5s: 1_000_000 }]),
      ),
    });
    await fc.assert(
      fc.asyncProperty(
        anyPath.filter((path) => /^[\x21-\x7e]+$/.test(path) && !path.includes(" ")),
        fc.constantFrom("GET", "PATCH", "DELETE"),
        async (path, verb) => {
          gateway.upstream.seen.length = 0;
          const answer = await sendRaw(
            gateway.port,
            head([`${verb} ${path} HTTP/1.1`, "Host: x", "Connection: close"]),
          );
          if (statusOf(answer) !== 200) {
            expect(gateway.upstream.seen).toEqual([]);
            return;
          }
          const [one] = gateway.upstream.seen;
          const asked = path.split(/[?#]/)[0] as string;
          const got = (one?.url ?? "").split("?")[0] as string;
          expect([one?.method, decodeURIComponent(got)]).toEqual([verb, decodeURIComponent(asked)]);
          expect(find(verb, got)).toBeDefined();
          expect(normalPath(got)).toBe(got);
        },
      ),
      { numRuns: 300 },
    );
  });

  it("of a request that a proxy asks about never slips past as something else", () => {
    fc.assert(
      fc.property(anyPath, (path) => {
        if (mayBeGateway(path)) return;
        // Whatever a server makes of it, it is not under /v1.
        let text = path;
        for (let round = 0; round < 4; round++) {
          const one = text
            .replaceAll("\\", "/")
            .replaceAll(/;[^/]*/g, "")
            .replaceAll(/\/+/g, "/");
          const resolved = new URL(`http://x${one}`);
          expect(resolved.pathname.toLowerCase()).not.toMatch(/^\/v1(\/|$)/);
          try {
            text = decodeURIComponent(text);
          } catch {
            return;
          }
        }
      }),
      { numRuns: 5_000 },
    );
    for (const path of ["/", "/docs/", "/docs//x", "/v10/x", "/av1", "/v1x", "/static/v1/logo.png", "/a%20b"])
      expect(mayBeGateway(path), path).toBe(false);
    for (const path of ["/v1", "/v1/", "//v1/qr", "/V1/qr", "/%76%31/qr", "/%2576%2531/qr", "/x/..;/v1/qr", "/v1;a/qr"])
      expect(mayBeGateway(path), path).toBe(true);
  });

  it("keeps its query byte for byte, but for what could be taken for its end", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 30 }), (text) => {
        const query = queryOf(`/v1/qr?${text.replaceAll(/[^\0-\xff]/g, "")}`);
        expect(query).toMatch(/^\?[\x21\x22\x24-\x7e]*$/);
        if (/^[\x21\x22\x24-\x7e]*$/.test(text)) expect(query).toBe(`?${text}`);
      }),
    );
  });
});
