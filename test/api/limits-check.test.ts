// `/limits/check`: what nginx, Traefik and Envoy send, what they get, and what a client behind them may try.
import { describe, expect, it } from "vitest";
import type { Got } from "../support/ask.ts";
import { CHECK_TOKEN, left, sendRaw, startBehind, startGateway, type TestGateway } from "../support/gateway.ts";

type Headers = Readonly<Record<string, string | readonly string[]>>;
const TOKEN = { Authorization: `Bearer ${CHECK_TOKEN}` };

/** As nginx's auth_request asks. */
const nginx = (
  gateway: TestGateway,
  method: string,
  uri: string,
  more: Headers = {},
  path = "/limits/check",
): Promise<Got> => gateway.ask("GET", path, { ...TOKEN, "X-Original-Method": method, "X-Original-URI": uri, ...more });
/** As Traefik's forwardAuth asks. */
const traefik = (gateway: TestGateway, method: string, uri: string, more: Headers = {}): Promise<Got> =>
  gateway.ask("GET", "/limits/check", {
    ...TOKEN,
    "X-Forwarded-Method": method,
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "pay.example.com",
    "X-Forwarded-Uri": uri,
    "X-Forwarded-For": "203.0.113.9",
    ...more,
  });
/** As Envoy's ext_authz asks. */
const envoy = (gateway: TestGateway, method: string, uri: string, more: Headers = {}): Promise<Got> =>
  gateway.ask(method, `/limits/check${uri}`, {
    ...TOKEN,
    "Content-Length": "0",
    "X-Forwarded-For": "203.0.113.9, 10.0.0.2",
    ...more,
  });

describe("each proxy's way of asking", () => {
  it.each([
    ["nginx", nginx],
    ["Traefik", traefik],
    ["Envoy", envoy],
  ])("decides and counts: %s", async (_name, asks) => {
    await using gateway = await startGateway();
    const seen: unknown[] = [];
    for (let i = 0; i < 4; i++) {
      const got = await asks(gateway, "POST", "/v1/qr/create?x=/v1/health", { "X-API-Key": "a" });
      seen.push([got.status, ...left(got), got.headers["retry-after"], got.json.code]);
    }
    expect(seen).toEqual([
      [200, 14, 2, undefined, undefined],
      [200, 13, 1, undefined, undefined],
      [200, 12, 0, undefined, undefined],
      [429, 12, 0, "5", "BURST_EXCEEDED"],
    ]);
    const { headers } = await asks(gateway, "POST", "/v1/qr/create", { "X-API-Key": "b" });
    expect(Object.keys(headers).filter((name) => /ratelimit|burst/.test(name))).toEqual([
      "x-ratelimit-limit",
      "x-ratelimit-remaining",
      "x-ratelimit-reset",
      "x-burst-limit",
      "x-burst-remaining",
      "x-burst-reset",
      "ratelimit-policy",
      "ratelimit",
    ]);
  });

  it("shares its windows with the gateway and with the other ways, whichever form is asked about", async () => {
    await using gateway = await startBehind();
    const key = { "X-API-Key": "a" };
    expect(left(await nginx(gateway, "PATCH", "/v1/qr/abc", key))).toEqual([14, 2]);
    expect(left(await traefik(gateway, "POST", "/v1/qr/update", key))).toEqual([13, 1]);
    expect(left(await gateway.ask("PATCH", "/v1/qr/other", key))).toEqual([12, 0]);
    expect((await envoy(gateway, "PATCH", "/v1/qr/abc", key)).status).toBe(429);
  });

  it("takes the client's own Authorization from X-Original-Authorization", async () => {
    await using gateway = await startGateway();
    const get = async (headers: Headers): Promise<readonly number[]> =>
      left(await nginx(gateway, "GET", "/v1/qr", headers));
    expect(await get({ "X-Original-Authorization": "Bearer a" })).toEqual([29, 4]);
    expect(await get({ "X-Original-Authorization": "Bearer b" })).toEqual([29, 4]);
    expect(await get({ "X-API-Key": "a" })).toEqual([28, 3]);
    // The proxy's own token is nobody's key.
    expect(await get({})).toEqual([29, 4]);
  });

  it("answers nginx with 403 where it says so, with the same headers", async () => {
    await using gateway = await startGateway();
    const statuses: unknown[] = [];
    for (let i = 0; i < 3; i++) {
      const got = await nginx(gateway, "POST", "/v1/withdraw/create", {}, "/limits/check?deny=403");
      statuses.push([got.status, ...left(got), got.headers["retry-after"]]);
    }
    expect(statuses).toEqual([
      [200, 5, 1, undefined],
      [200, 4, 0, undefined],
      [403, 4, 0, "5"],
    ]);
    const unknown = await nginx(gateway, "GET", "/v1/nothing", {}, "/limits/check?deny=403");
    expect([unknown.status, unknown.headers["retry-after"]]).toEqual([403, undefined]);
    // Envoy hands the client's own query on: it decides nothing.
    expect((await envoy(gateway, "GET", "/v1/nothing?deny=403")).status).toBe(404);
  });

  it("counts the address that trusted proxies tell of, and no other", async () => {
    await using gateway = await startGateway({ trustedProxies: ["127.0.0.1", "10.0.0.0/8"] });
    expect(left(await envoy(gateway, "GET", "/v1/qr"))).toEqual([29, 4]);
    expect(left(await envoy(gateway, "GET", "/v1/qr"))).toEqual([28, 3]);
    expect(left(await envoy(gateway, "GET", "/v1/qr", { "X-Forwarded-For": "203.0.113.8, 10.0.0.2" }))).toEqual([
      29, 4,
    ]);
    expect(left(await envoy(gateway, "GET", "/v1/qr", { "X-Forwarded-For": "1.1.1.1, 203.0.113.8" }))).toEqual([28, 3]);
  });
});

describe("a path", () => {
  it("outside /v1 passes without being counted", async () => {
    await using gateway = await startGateway();
    for (const path of ["/", "/docs/", "/static/v1/x.js?y", "/api-keys/key_1/webhooks", "https://h.example/about"]) {
      const got = await nginx(gateway, "GET", path);
      expect([got.status, got.headers["x-ratelimit-limit"]], path).toEqual([200, undefined]);
    }
    expect((await envoy(gateway, "POST", "/docs/")).status).toBe(200);
    expect((await envoy(gateway, "GET", "/")).status).toBe(200);
  });

  it.each([
    "/v1",
    "/v1/",
    "/v1/unknown",
    "/V1/qr",
    "//v1/qr",
    "/v1//qr",
    "/v1/qr/",
    "/x/../v1/qr",
    "/./v1/qr",
    "/%2576%2531/qr",
    "/x/..;/v1/qr",
    "/v1;a=b/qr",
    "\\v1\\qr",
    "/v1/qr/a%2fb",
    "/%ff",
    "/v1/links/..;/transactions",
  ])("under /v1, or possibly so, that is no operation is denied: %s", async (path) => {
    await using gateway = await startGateway();
    expect((await nginx(gateway, "GET", path)).status).toBe(404);
  });

  it("of an operation that is spelled otherwise is that operation", async () => {
    await using gateway = await startGateway();
    expect(left(await nginx(gateway, "GET", "/v1/%71r", { "X-API-Key": "a" }))).toEqual([29, 4]);
    expect(left(await nginx(gateway, "GET", "/v1/qr", { "X-API-Key": "a" }))).toEqual([28, 3]);
    expect(left(await nginx(gateway, "HEAD", "http://h/v1/qr", { "X-API-Key": "a" }))).toEqual([27, 2]);
    expect(left(await nginx(gateway, "GET", "/%76%31/qr", { "X-API-Key": "a" }))).toEqual([26, 1]);
    expect((await nginx(gateway, "PUT", "/v1/qr", { "X-API-Key": "a" })).status).toBe(404);
  });
});

describe("a client behind a proxy", () => {
  it("cannot name another request, whichever headers it adds", async () => {
    await using gateway = await startGateway();
    const cheap = { "X-Original-Method": "GET", "X-Original-URI": "/v1/health" };
    const behindTraefik = await traefik(gateway, "POST", "/v1/withdraw/create", cheap);
    expect([behindTraefik.status, behindTraefik.json.code]).toEqual([400, "VALIDATION_FAILED"]);
    const half = await traefik(gateway, "POST", "/v1/withdraw/create", { "X-Original-URI": "/v1/health" });
    expect(half.status).toBe(400);
    const behindNginx = await nginx(gateway, "POST", "/v1/withdraw/create", {
      "X-Forwarded-Method": "GET",
      "X-Forwarded-Uri": "/v1/health",
    });
    expect(behindNginx.status).toBe(400);
    const behindEnvoy = await envoy(gateway, "POST", "/v1/withdraw/create", cheap);
    expect([behindEnvoy.status, behindEnvoy.headers["x-ratelimit-limit"]]).toEqual([200, "6"]);
    // Two of the same: what the proxy wrote cannot be told from what the client did.
    const twice = await nginx(gateway, "GET", "/v1/qr", { "X-Original-URI": ["/v1/withdraw/create", "/v1/qr"] });
    expect(twice.status).not.toBe(200);
  });

  it("cannot be two callers at once", async () => {
    await using gateway = await startGateway();
    for (const name of ["X-API-Key", "X-Original-Authorization"]) {
      const got = await nginx(gateway, "GET", "/v1/qr", { [name]: ["Bearer a", "Bearer b"] });
      expect(got.status, name).toBe(400);
    }
  });

  it("needs to be told of at all", async () => {
    await using gateway = await startGateway();
    const some: readonly Headers[] = [{}, { "X-Original-URI": "/v1/qr" }, { "X-Forwarded-Method": "GET" }];
    for (const headers of some) {
      const got = await gateway.ask("GET", "/limits/check", { ...TOKEN, ...headers });
      expect([got.status, got.json.code]).toEqual([400, "VALIDATION_FAILED"]);
    }
  });
});

describe("the token", () => {
  it("is asked for in every form, compared whole, and sought in no other place", async () => {
    await using gateway = await startGateway();
    const about = { "X-Original-Method": "GET", "X-Original-URI": "/v1/qr", "X-API-Key": "a" };
    for (const authorization of [
      undefined,
      "",
      "Bearer",
      "Bearer ",
      `Basic ${CHECK_TOKEN}`,
      `Bearer ${CHECK_TOKEN}x`,
      `Bearer ${CHECK_TOKEN.slice(0, -1)}`,
      `Bearer ${CHECK_TOKEN.toUpperCase()}`,
      `Bearer ${CHECK_TOKEN} x`,
      `Bearer ${CHECK_TOKEN}, Bearer x`,
    ]) {
      const headers = authorization === undefined ? about : { ...about, Authorization: authorization };
      for (const path of ["/limits/check", "/limits/check?token=x", "/limits/check/v1/qr", "/limits/check?deny=403"]) {
        const got = await gateway.ask("GET", path, headers);
        expect([got.status, got.json.code], `${authorization} ${path}`).toEqual([401, "UNAUTHENTICATED"]);
      }
    }
    expect(left(await nginx(gateway, "GET", "/v1/qr", { "X-API-Key": "a" }))).toEqual([29, 4]);
  });

  it("twice is no token", async () => {
    await using gateway = await startGateway();
    const lines = ["GET /limits/check HTTP/1.1", "Host: x", "Connection: close", "X-Original-Method: GET"];
    const bearer = `Authorization: Bearer ${CHECK_TOKEN}`;
    const answer = await sendRaw(
      gateway.port,
      `${[...lines, "X-Original-URI: /", bearer, bearer].join("\r\n")}\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 401/);
  });

  it("is wrong too often from one address, and its failures answer 429; the right one is never refused by that", async () => {
    await using gateway = await startGateway();
    const wrong = (): Promise<Got> => gateway.ask("GET", "/limits/check", { Authorization: "Bearer wrong" });
    for (let i = 0; i < 300; i++) expect((await wrong()).status).toBe(401);
    const refused = await wrong();
    expect([refused.status, refused.headers["retry-after"]]).toEqual([429, "60"]);
    expect((await nginx(gateway, "GET", "/v1/qr")).status).toBe(200);
  });

  it("opens the one path by GET and HEAD alone, and what is below it by any of our methods", async () => {
    await using gateway = await startGateway();
    const post = await gateway.ask("POST", "/limits/check", TOKEN);
    expect([post.status, post.headers["allow"]]).toEqual([405, "GET, HEAD"]);
    expect((await envoy(gateway, "OPTIONS", "/v1/qr")).status).toBe(405);
    const headed = await gateway.ask("HEAD", "/limits/check", {
      ...TOKEN,
      "X-Original-Method": "GET",
      "X-Original-URI": "/v1/qr",
    });
    expect([headed.status, headed.headers["x-ratelimit-remaining"]]).toEqual([200, "29"]);
  });
});
