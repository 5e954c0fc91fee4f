// The proxies in deploy/: nginx is run for real; Traefik's and Envoy's files are read, and asked for them as they ask.
import { writeFileSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Agent, request } from "undici";
import { describe, expect, it } from "vitest";
import { ask } from "../support/ask.ts";
import type { Got } from "../support/ask.ts";
import { sendRaw, startUpstream } from "../support/gateway.ts";
import { makeAuthority } from "../support/certificates.ts";
import { needs } from "../support/needs.ts";
import { deployed, startNginx } from "../support/nginx.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay, TEST_KEYS } from "../support/relay.ts";
import type { TestRelay } from "../support/relay.ts";

const traefik = await deployed("traefik/limits.yaml");
const envoy = await deployed("envoy/limits.yaml");
const TOKEN = "a-long-random-text";
const withCheck = (): Promise<TestRelay> =>
  startRelay({
    server: { host: "127.0.0.1", port: 0, trustedProxies: ["127.0.0.1"] },
    limits: { check: { token: TOKEN } },
  });
const portOf = (url: string): string => new URL(url).port;

describe("nginx", () => {
  const missing = needs("nginx");

  it("asks the relay, forwards what may pass, and refuses with its code, its headers and its wait", async ({
    skip,
  }) => {
    skip(missing !== undefined, missing);
    await using upstream = await startUpstream((req, res) => {
      if (req.url === "/v1/scopes") res.writeHead(403);
      res.end("from the upstream");
    });
    await using relay = await withCheck();
    await using nginx = await startNginx(relay.url, upstream.url);
    const headers = { "X-API-Key": "a" };

    const answers: Got[] = [];
    for (let i = 0; i < 3; i++)
      answers.push(await ask(nginx.port, "POST", "/v1/withdraw/create", { headers, body: "amount" }));
    const shown = answers.map((got) => [
      got.status,
      got.headers["x-ratelimit-remaining"],
      got.headers["x-burst-remaining"],
    ]);
    expect(shown).toEqual([
      [200, "5", "1"],
      [200, "4", "0"],
      [429, "4", "0"],
    ]);
    expect(upstream.seen.map(({ body }) => body.toString())).toEqual(["amount", "amount"]);
    const refused = answers[2] as Got;
    expect(refused.json).toMatchObject({ status: 429, code: "BURST_EXCEEDED", retryAfter: 5 });
    expect(refused.headers).toMatchObject({
      "retry-after": "5",
      "content-type": "application/problem+json",
      "x-ratelimit-limit": "6",
      "x-burst-limit": "2",
    });

    // The upstream's own 403 is the upstream's own.
    const forbidden = await ask(nginx.port, "GET", "/v1/scopes", { headers });
    expect([forbidden.status, forbidden.body.toString()]).toEqual([403, "from the upstream"]);
    expect((await ask(nginx.port, "GET", "/v1/unknown", { headers })).status).toBe(404);
    expect(upstream.seen.at(-1)?.url).toBe("/v1/scopes");
  });

  it("tells clients apart, and lets none of them speak for another", async ({ skip }) => {
    skip(missing !== undefined, missing);
    await using upstream = await startUpstream();
    await using relay = await withCheck();
    await using nginx = await startNginx(relay.url, upstream.url);
    const left = async (method: string, path: string, headers: Record<string, string>): Promise<unknown> =>
      (await ask(nginx.port, method, path, { headers })).headers["x-ratelimit-remaining"];

    expect(await left("PATCH", "/v1/qr/a", { Authorization: "Bearer a" })).toBe("14");
    expect(await left("POST", "/v1/qr/update", { Authorization: "Bearer a" })).toBe("13");
    expect(await left("POST", "/v1/qr/update", { Authorization: "Bearer b" })).toBe("14");
    expect(upstream.seen.at(-1)?.headers.authorization).toBe("Bearer b");
    // A client cannot say what nginx says of its request.
    const lies = {
      "X-Original-URI": "/v1/health",
      "X-Original-Method": "GET",
      "X-Forwarded-Uri": "/v1/health",
      "X-Forwarded-Method": "GET",
      "X-Original-Authorization": "Bearer other",
      "X-Forwarded-For": "8.8.8.8",
    };
    expect(await left("POST", "/v1/qr/update", { Authorization: "Bearer a", ...lies })).toBe("12");
    expect(await left("GET", "/v1/qr", lies)).toBe("29");
    expect(await left("GET", "/v1/qr", { "X-Forwarded-For": "9.9.9.9" })).toBe("28");
    // Spellings that nginx takes for /v1 are counted as what they are, or lead nowhere.
    expect(await left("GET", "/%76%31/qr", {})).toBe("27");
    const seen = upstream.seen.length;
    for (const path of ["/v1//qr", "/v1/./qr", "/v1/x/../qr", "//v1/qr", "/v1/qr/%2e%2e/links"]) {
      const answer = await sendRaw(nginx.port, `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
      expect(answer, path).toMatch(/^HTTP\/1\.1 404/);
    }
    expect(upstream.seen).toHaveLength(seen);
  });

  it("serves a relay over TLS, and leaves it to the relay what is too large", async ({ skip }) => {
    skip(missing !== undefined, missing);
    const authority = await makeAuthority(Date.now(), "CA of a proxy");
    const { key, cert } = await authority.issue(["127.0.0.1"]);
    await using relay = await startRelay({ server: { host: "127.0.0.1", port: 0, trustedProxies: ["127.0.0.1"] } });
    await using nginx = await startNginx(relay.url, relay.url, "relay.conf", (config, folder, port) => {
      writeFileSync(join(folder, "relay.key"), key);
      writeFileSync(join(folder, "relay.crt"), cert);
      return config.replaceAll("/etc/nginx/", `${folder}/`).replace("listen 443 ssl", `listen 127.0.0.1:${port} ssl`);
    });
    const agent = new Agent({ connect: { ca: authority.ca } });
    const publish = (data: string) =>
      request(`https://127.0.0.1:${nginx.port}/events`, {
        method: "POST",
        headers: { authorization: `Bearer ${TEST_KEYS.publishToken}`, "content-type": "application/json" },
        body: JSON.stringify({ type: "deposit:paid", keyId: "key_1", data }),
        dispatcher: agent,
      });
    const accepted = await publish("small");
    expect(accepted.statusCode).toBe(202);
    await accepted.body.dump();
    const refused = await publish("x".repeat(8_500_000));
    expect([refused.statusCode, await refused.body.json()]).toMatchObject([413, { code: "PAYLOAD_TOO_LARGE" }]);
    await agent.destroy();
  });

  it("lets nothing through while the relay does not answer", async ({ skip }) => {
    skip(missing !== undefined, missing);
    await using upstream = await startUpstream();
    const relay = await withCheck();
    const { url } = relay;
    await relay[Symbol.asyncDispose]();
    await using nginx = await startNginx(url, upstream.url);
    expect((await ask(nginx.port, "GET", "/v1/qr")).status).toBe(500);
    expect(upstream.seen).toEqual([]);
  });
});

/** YAML as plain data. */
const yaml = (text: string): unknown =>
  (createRequire(import.meta.url)("js-yaml") as { load(text: string): unknown }).load(text);

/** Returns what stands at a path in plain data. */
const at = (data: unknown, ...path: readonly (string | number)[]): unknown =>
  path.reduce<unknown>((one, name) => (one as Record<string | number, unknown> | undefined)?.[name], data);

describe("Traefik", () => {
  const config = yaml(traefik);

  it("is told to show its token while it asks, to ask the relay, and to take the token off again", () => {
    const order = at(config, "http", "routers", "payments", "middlewares") as readonly string[];
    const chain = order.map((name) => at(config, "http", "middlewares", name));
    expect(chain).toEqual([
      { headers: { customRequestHeaders: { Authorization: `Bearer ${TOKEN}` } } },
      {
        forwardAuth: {
          address: "http://127.0.0.1:8080/limits/check",
          trustForwardHeader: false,
          authRequestHeaders: ["Authorization", "X-API-Key"],
        },
      },
      { headers: { customRequestHeaders: { Authorization: "" } } },
    ]);
    expect(at(config, "http", "routers", "payments", "service")).toBe("payments");
    expect(at(config, "http", "services", "payments", "loadBalancer", "servers", 0, "url")).toBe(
      "http://127.0.0.1:9000",
    );
  });

  it("asks as its forwardAuth does, and is answered", async () => {
    await using relay = await withCheck();
    const headers = {
      ...(at(config, "http", "middlewares", "relay-token", "headers", "customRequestHeaders") as Record<
        string,
        string
      >),
      "User-Agent": "Go-http-client/1.1",
      "Accept-Encoding": "gzip",
      "X-Api-Key": "a",
      "X-Forwarded-For": "203.0.113.7",
      "X-Forwarded-Host": "pay.example.com",
      "X-Forwarded-Method": "POST",
      "X-Forwarded-Proto": "https",
      "X-Forwarded-Uri": "/v1/withdraw/create?x=1",
    };
    const statuses: unknown[] = [];
    for (let i = 0; i < 3; i++) {
      const got = await ask(Number(portOf(relay.url)), "GET", "/limits/check", { headers });
      statuses.push([got.status, got.headers["x-limit-code"], got.json.code]);
    }
    expect(statuses).toEqual([
      [200, undefined, undefined],
      [200, undefined, undefined],
      [429, "BURST_EXCEEDED", "BURST_EXCEEDED"],
    ]);
  });
});

describe("Envoy", () => {
  const config = yaml(envoy);
  const manager = ["static_resources", "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config"];
  const filters = at(config, ...manager, "http_filters") as readonly {
    readonly name: string;
    readonly typed_config: unknown;
  }[];
  const filter = (name: string): unknown =>
    filters.find((one) => one.name === `envoy.filters.http.${name}`)?.typed_config;

  it("is told to move the client's Authorization aside before it asks, and to ask before it routes", () => {
    expect(filters.map(({ name }) => name.replace("envoy.filters.http.", ""))).toEqual([
      "header_mutation",
      "ext_authz",
      "router",
    ]);
    const mutations = at(filter("header_mutation"), "mutations", "request_mutations") as readonly unknown[];
    expect([at(mutations, 0, "remove"), at(mutations, 1, "append", "header")]).toEqual([
      "x-original-authorization",
      { key: "x-original-authorization", value: "%REQ(authorization)%" },
    ]);
    const authz = filter("ext_authz");
    expect(at(authz, "failure_mode_allow")).toBe(false);
    const clusters = at(config, "static_resources", "clusters") as readonly { readonly name: string }[];
    expect(clusters.map(({ name }) => name)).toContain(at(authz, "http_service", "server_uri", "cluster"));
  });

  it("asks as its ext_authz does, and is answered", async () => {
    await using relay = await withCheck();
    const service = at(filter("ext_authz"), "http_service");
    const added = at(service, "authorization_request", "headers_to_add", 0) as {
      readonly key: string;
      readonly value: string;
    };
    const allowed = (
      at(filter("ext_authz"), "allowed_headers", "patterns") as readonly { readonly exact: string }[]
    ).map(({ exact }) => exact);
    const client: Readonly<Record<string, string>> = {
      "x-original-authorization": "Bearer key-of-the-client",
      "x-forwarded-for": "203.0.113.7",
      "x-secret": "not for the relay",
    };
    const passed = Object.fromEntries(Object.entries(client).filter(([name]) => allowed.includes(name)));
    const headers = { host: "pay.example.com", "content-length": "0", ...passed, [added.key]: added.value };
    const path = `${String(at(service, "path_prefix"))}/v1/qr/a%20b?deny=403`;
    const statuses: unknown[] = [];
    for (let i = 0; i < 4; i++) {
      const got = await ask(Number(portOf(relay.url)), "PATCH", path, { headers });
      statuses.push([got.status, got.headers["x-ratelimit-remaining"], got.headers["x-limit-code"]]);
    }
    expect(statuses).toEqual([
      [200, "14", undefined],
      [200, "13", undefined],
      [200, "12", undefined],
      [429, "12", "BURST_EXCEEDED"],
    ]);
  });
});

describe("the gateway of a whole relay", () => {
  it("opens its upstream and nothing else, though the guard allows nothing", async () => {
    await using upstream = await startUpstream();
    await using relay = await startRelay({ gateway: { upstream: upstream.url }, guard: { allow: [] }, limits: {} });
    const got = await ask(Number(portOf(relay.url)), "GET", "/v1/qr");
    expect([got.status, got.headers["x-ratelimit-remaining"]]).toEqual([200, "29"]);
    const refused = await relay.call("POST", "/api-keys/key_1/webhooks", {
      body: { url: `https://127.0.0.1:${portOf(upstream.url)}/`, events: ["a:b"] },
    });
    expect([refused.status, refused.json.code]).toEqual([422, "URL_NOT_ALLOWED"]);
    expect((await ask(Number(portOf(relay.url)), "GET", "/limits/check")).status).toBe(404);
  });

  it("speaks TLS to its upstream and takes no certificate that it does not trust", async () => {
    await using upstream = await startReceiver();
    const other = await makeAuthority(Date.now(), "Somebody else's CA");
    await using stranger = await startReceiver({ certificate: await other.issue(["localhost", "127.0.0.1"]) });
    for (const [url, status] of [
      [upstream.url(), 200],
      [upstream.url().replace(/localhost|127\.0\.0\.1/, "localhost"), 200],
      [stranger.url(), 502],
    ] as const) {
      await using relay = await startRelay({ gateway: { upstream: new URL(url).origin } });
      expect((await ask(Number(portOf(relay.url)), "GET", "/v1/qr")).status, url).toBe(status);
    }
  });

  it("reaches an upstream on IPv6, and one that is named", async () => {
    await using named = await startUpstream();
    const server = createHttp((_req, res) => void res.end("{}"));
    await new Promise<void>((listening) => void server.listen(0, "::1", listening));
    const { port } = server.address() as AddressInfo;
    try {
      for (const upstream of [`http://[::1]:${port}`, `http://localhost:${portOf(named.url)}`]) {
        await using relay = await startRelay({ gateway: { upstream } });
        expect((await ask(Number(portOf(relay.url)), "GET", "/v1/qr")).status, upstream).toBe(200);
      }
    } finally {
      server.closeAllConnections();
      await new Promise((closed) => void server.close(closed));
    }
  });
});
