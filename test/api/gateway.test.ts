// The gateway: which requests pass, under which limits, and what they look like on either side.
import { describe, expect, it } from "vitest";
import { defaultRows } from "../../config/limits.ts";
import { resolvePlan } from "../../config/validate.ts";
import { ask, type Got } from "../support/ask.ts";
import { left, startBehind, startGateway, startUpstream, type Upstream } from "../support/gateway.ts";
import { freePort } from "../../tools/free-port.ts";

const KEY = { "X-API-Key": "key-a" };
const last = ({ seen }: Upstream): Upstream["seen"][number] => seen.at(-1) as Upstream["seen"][number];

/** Every operation of the table, with its row. */
const TABLE = Object.entries(defaultRows).flatMap(([name, row]) =>
  name.includes(" /v1/") && row !== false ? [{ name, row }] : [],
);
const ADDRESS: Readonly<Record<string, string>> = { id: "7", slug: "s" };
const request = (name: string): [method: string, path: string] => {
  const [method = "", path = ""] = name.split(" ");
  return [method, path.replaceAll(/\{(\w+)\}/g, (_, parameter: string) => ADDRESS[parameter] as string)];
};

describe("every operation of the table", () => {
  it("is passed on with its own two windows, and no other is", async () => {
    await using gateway = await startBehind();
    expect(TABLE).toHaveLength(27);
    for (const { name, row } of TABLE) {
      const [method, path] = request(name);
      const got = await gateway.ask(method, path, KEY);
      expect([got.status, got.headers["x-ratelimit-limit"], got.headers["x-burst-limit"]], name).toEqual([
        200,
        String(row.perMinute),
        String(row.per5s),
      ]);
      expect(left(got), name).toEqual([row.perMinute - 1, row.per5s - 1]);
      expect([last(gateway.upstream).method, last(gateway.upstream).url]).toEqual([method, path]);
    }
    const seen = gateway.upstream.seen.length;
    for (const path of [
      "/v1",
      "/v1/",
      "/v1/unknown",
      "/v1/qr/a/b",
      "/v1/withdraw/create/x",
      "/V1/health",
      "/v2/health",
    ])
      expect((await gateway.ask("GET", path, KEY)).status, path).toBe(404);
    const refused = await gateway.ask("DELETE", "/v1/health", KEY);
    expect([refused.status, refused.headers["allow"]]).toEqual([405, "GET, HEAD"]);
    expect((await gateway.ask("OPTIONS", "/v1/qr/abc", KEY)).headers["allow"]).toBe("GET, HEAD, PATCH, DELETE");
    expect(gateway.upstream.seen).toHaveLength(seen);
  });

  it("is found by a slug that is named like another operation", async () => {
    await using gateway = await startBehind();
    for (const [method, path, limit] of [
      ["GET", "/v1/links/pay", 60],
      ["GET", "/v1/qr/create", 60],
      ["GET", "/v1/links/update/transactions", 30],
      ["DELETE", "/v1/qr/update", 10],
    ] as const) {
      const got = await gateway.ask(method, path, KEY);
      expect([path, got.status, got.headers["x-ratelimit-limit"]]).toEqual([path, 200, String(limit)]);
      expect([last(gateway.upstream).method, last(gateway.upstream).url]).toEqual([method, path]);
    }
    const refused = await gateway.ask("PUT", "/v1/links/pay", KEY);
    expect([refused.status, refused.headers["allow"]]).toEqual([405, "POST, GET, HEAD, PATCH, DELETE"]);
  });

  it("that has two forms counts both in one pair of windows", async () => {
    await using gateway = await startBehind();
    for (const [resource, verb, method, limit] of [
      ["qr", "update", "PATCH", 15],
      ["qr", "delete", "DELETE", 10],
      ["links", "update", "PATCH", 15],
      ["links", "delete", "DELETE", 10],
    ] as const) {
      const action = await gateway.ask("POST", `/v1/${resource}/${verb}`, KEY);
      const rest = await gateway.ask(method, `/v1/${resource}/some-slug`, KEY);
      const other = await gateway.ask(method, `/v1/${resource}/other`, KEY);
      const fourth = await gateway.ask("POST", `/v1/${resource}/${verb}`, KEY);
      expect([action, rest, other].map(left)).toEqual([
        [limit - 1, 2],
        [limit - 2, 1],
        [limit - 3, 0],
      ]);
      expect([fourth.status, fourth.json.code]).toEqual([429, "BURST_EXCEEDED"]);
    }
  });

  it("is asked for with HEAD under the row of GET, and HEAD is what the upstream gets", async () => {
    await using gateway = await startBehind(
      {},
      (_req, res) => void res.writeHead(200, { "Content-Length": "77" }).end("x".repeat(77)),
    );
    const got = await gateway.ask("HEAD", "/v1/qr/abc", KEY);
    expect([got.status, got.headers["content-length"], got.body.length, last(gateway.upstream).method]).toEqual([
      200,
      "77",
      0,
      "HEAD",
    ]);
    expect(left(await gateway.ask("GET", "/v1/qr/abc", KEY))).toEqual([58, 8]);
  });
});

describe("who is counted", () => {
  it("is the key in its header, else the bearer token, and never both of two keys together", async () => {
    await using gateway = await startBehind();
    const get = async (headers: Record<string, string>): Promise<readonly number[]> =>
      left(await gateway.ask("GET", "/v1/qr", headers));
    expect(await get({ "X-API-Key": "a" })).toEqual([29, 4]);
    expect(await get({ "X-API-Key": "b" })).toEqual([29, 4]);
    expect(await get({ Authorization: "Bearer a" })).toEqual([28, 3]);
    expect(await get({ Authorization: "bearer  a", "X-API-Key": "b" })).toEqual([28, 3]);
    expect(await get({ "x-api-KEY": "a" })).toEqual([27, 2]);
    expect(await get({})).toEqual([29, 4]);
    expect(await get({ Authorization: "Basic a" })).toEqual([28, 3]);
  });

  it("is the client's address as well, at ten times the row, whatever keys it invents", async () => {
    await using gateway = await startBehind();
    const statuses: number[] = [];
    for (let i = 0; i < 25; i++)
      statuses.push((await gateway.ask("POST", "/v1/withdraw/create", { "X-API-Key": `${i}` })).status);
    // 2 in 5 s, times ten.
    expect(statuses).toEqual([...Array<number>(20).fill(200), ...Array<number>(5).fill(429)]);
    const refused = await gateway.ask("POST", "/v1/withdraw/create", { "X-API-Key": "new" });
    expect(refused.headers).toMatchObject({ "x-burst-limit": "20", "x-burst-remaining": "0", "retry-after": "5" });
    await gateway.clock.advance(5_000);
    // A refusal by the address consumed nothing of the key.
    const after = await gateway.ask("POST", "/v1/withdraw/create", { "X-API-Key": "new" });
    expect([after.status, after.headers["x-ratelimit-remaining"]]).toEqual([200, "5"]);
  });

  it("may stand in no header that the gateway drops: the config refuses it", async () => {
    await using upstream = await startUpstream();
    for (const keyHeader of ["X-Forwarded-Key", "x_original_key", "Proxy-Authorization", "Host", "X-Real-IP", "TE"]) {
      const config = { gateway: { upstream: upstream.url, keyHeader } };
      expect(() => resolvePlan(config, { configDir: "/etc/relay", cwd: "/", settings: {} }), keyHeader).toThrow(
        "the gateway does not pass it on",
      );
      // Without that it is neither counted nor forwarded.
      await using gateway = await startGateway({ upstream: upstream.url, keyHeader });
      if (keyHeader !== "X-Forwarded-Key") continue;
      const got = [];
      for (const key of ["a", "b"]) got.push(await gateway.ask("GET", "/v1/qr", { [keyHeader]: key }));
      expect(got.map((one) => one.headers["x-ratelimit-remaining"])).toEqual(["29", "28"]);
      expect(upstream.seen.map(({ headers }) => headers["x-forwarded-key"])).toEqual([undefined, undefined]);
    }
  });

  it("is found in a header of the operator's choice", async () => {
    await using gateway = await startBehind({ keyHeader: "Authorization" });
    const get = async (headers: Record<string, string>): Promise<readonly number[]> =>
      left(await gateway.ask("GET", "/v1/qr", headers));
    expect(await get({ Authorization: "Bearer a", "X-API-Key": "1" })).toEqual([29, 4]);
    expect(await get({ Authorization: "Bearer a", "X-API-Key": "2" })).toEqual([28, 3]);
  });

  it("cannot hide behind a second key, a key for this hop only, or another spelling of the header", async () => {
    await using gateway = await startBehind();
    const twice = await gateway.ask("GET", "/v1/qr", { "X-API-Key": ["a", "b"] });
    expect([twice.status, twice.json.code]).toEqual([400, "VALIDATION_FAILED"]);
    const hop = { "X-API-Key": "shown-to-us-only", Connection: "X-API-Key", Authorization: "Bearer real" };
    await gateway.ask("GET", "/v1/qr", hop);
    expect(last(gateway.upstream).headers["x-api-key"]).toBeUndefined();
    const real = await gateway.ask("GET", "/v1/qr", { Authorization: "Bearer real" });
    expect(left(real)).toEqual([28, 3]);
    await gateway.ask("GET", "/v1/qr", { "X-API-Key": "shown", X_API_Key: "real" });
    expect(last(gateway.upstream).headers).toMatchObject({ "x-api-key": "shown" });
    expect(last(gateway.upstream).headers["x_api_key"]).toBeUndefined();
  });
});

describe("a request", () => {
  it("arrives with its body, its query and its own headers, and with ours about where it came from", async () => {
    await using gateway = await startBehind();
    const body = Buffer.from([0, 255, 10, 13]);
    const got = await gateway.ask(
      "POST",
      "/v1/qr/create?a=1&b=%zz&c=[x]|\"'",
      {
        ...KEY,
        Host: "pay.example.com",
        "Content-Type": "application/x-odd",
        "Content-Encoding": "gzip",
        Accept: "text/plain",
        Cookie: "a=1; __Host-relay=secret; b=2",
        "X-Forwarded-For": "6.6.6.6",
        "X-Forwarded-Host": "evil",
        "X-Forwarded-Proto": "https",
        X_Forwarded_For: "6.6.6.6",
        Forwarded: "for=6.6.6.6",
        "X-Real-IP": "6.6.6.6",
        "X-Original-URL": "/v1/withdraw/create",
        "X-Rewrite-URL": "/v1/withdraw/create",
        "X-HTTP-Method-Override": "DELETE",
        "X-Request-Id": "mine",
        Via: "1.0 fred",
        TE: "trailers",
        "Proxy-Authorization": "Basic x",
        "Keep-Alive": "timeout=1",
        Connection: "close, X-Hop",
        "X-Hop": "of this hop",
      },
      body,
    );
    expect(got.status).toBe(200);
    const one = last(gateway.upstream);
    expect([one.method, one.url, one.body]).toEqual(["POST", "/v1/qr/create?a=1&b=%zz&c=[x]|\"'", body]);
    expect(one.headers).toEqual({
      host: new URL(gateway.upstream.url).host,
      connection: "keep-alive",
      "content-length": "4",
      "content-type": "application/x-odd",
      "content-encoding": "gzip",
      accept: "text/plain",
      cookie: "a=1; b=2",
      "x-api-key": "key-a",
      "x-forwarded-for": "127.0.0.1",
      "x-forwarded-proto": "http",
      "x-forwarded-host": "pay.example.com",
      "x-request-id": got.headers["x-request-id"],
      via: "1.0 fred, 1.1 relaybox",
    });
  });

  it("that comes back because the upstream is the gateway itself ends with a 502, and the log says so", async () => {
    let port = 0;
    let back: Got | undefined;
    // The upstream passes all of it on to the gateway, as a load balancer before it does.
    await using front = await startUpstream((req, res) => {
      void ask(port, "GET", "/v1/health", { headers: { ...KEY, Via: req.headers.via ?? "" } }).then((got) => {
        back = got;
        res.writeHead(got.status).end();
      });
    });
    await using gateway = await startGateway({ upstream: front.url });
    port = gateway.port;
    const got = await gateway.ask("GET", "/v1/health", KEY);
    expect([back?.status, back?.json.code]).toEqual([502, "UPSTREAM_UNAVAILABLE"]);
    expect([got.status, front.seen.length]).toEqual([502, 1]);
    expect(gateway.log.lines.map(({ message }) => message)).toContain(
      "the upstream of the gateway leads back to the relay: change gateway.upstream",
    );
  });

  it("that its upstream does not answer writes at most 20 lines of each kind a minute, and says how many it left out", async () => {
    await using gateway = await startGateway({ upstream: `http://127.0.0.1:${await freePort()}` });
    for (let i = 0; i < 30; i++) expect((await gateway.ask("GET", "/v1/health", KEY)).status).toBe(502);
    const { lines } = gateway.log;
    const kinds = ["the upstream did not answer", "a request failed", "request"];
    expect(kinds.map((kind) => lines.filter(({ message }) => message === kind).length)).toEqual([20, 20, 20]);
    await gateway.clock.advance(60_000);
    const told = lines.filter(({ message }) => message.startsWith("more requests"));
    expect(told.map(({ fields }) => fields["count"])).toEqual([10, 10]);
  });

  it("that only says it came back writes at most 20 lines a minute, and one of them is an error", async () => {
    await using gateway = await startBehind();
    const headers = { ...KEY, Via: "1.1 relaybox" };
    for (let i = 0; i < 25; i++) {
      const got = await gateway.ask("GET", "/v1/health", headers);
      expect([got.status, got.json.code]).toEqual([502, "UPSTREAM_UNAVAILABLE"]);
    }
    expect(gateway.upstream.seen).toEqual([]);
    const lines = () => gateway.log.lines.map(({ level, message }) => `${level} ${message}`);
    const refused = Array.from({ length: 20 }, () => "info request refused");
    const loop = "error the upstream of the gateway leads back to the relay: change gateway.upstream";
    expect(lines().toSorted()).toEqual([loop, ...refused]);
    await gateway.clock.advance(60_000);
    await gateway.ask("GET", "/v1/health", headers);
    expect(gateway.log.lines.filter(({ level }) => level === "error").map(({ fields }) => fields)).toEqual([
      { count: 1 },
      { count: 25 },
    ]);
  });

  it("through a trusted proxy is known by what that proxy says", async () => {
    await using gateway = await startBehind({ trustedProxies: ["127.0.0.1"] });
    const forwarded = {
      "X-Forwarded-For": "9.9.9.9, 203.0.113.7",
      "X-Forwarded-Proto": "https",
      "X-Forwarded-Host": "pay.example.com",
    };
    await gateway.ask("GET", "/v1/health", forwarded);
    expect(last(gateway.upstream).headers).toMatchObject({
      "x-forwarded-for": "203.0.113.7",
      "x-forwarded-proto": "https",
      "x-forwarded-host": "pay.example.com",
    });
    // Without a key the address is who is counted.
    expect(left(await gateway.ask("GET", "/v1/health", forwarded))).toEqual([58, 8]);
    expect(left(await gateway.ask("GET", "/v1/health"))).toEqual([59, 9]);
  });

  it("goes below the path of the upstream's URL", async () => {
    await using upstream = await startUpstream();
    await using gateway = await startGateway({ upstream: `${upstream.url}/payments/` });
    await gateway.ask("GET", "/v1/qr/a%20b?x");
    expect(last(upstream).url).toBe("/payments/v1/qr/a%20b?x");
  });
});

describe("an answer", () => {
  it("comes through with its headers, and with ours in place of the upstream's limits", async () => {
    await using gateway = await startBehind({}, (_req, res) => {
      res.writeHead(207, [
        ...["X-RateLimit-Limit", "1000", "x-ratelimit-remaining", "999", "X-Burst-Limit", "9", "RateLimit", "x"],
        ...["RateLimit-Policy", "y", "X-Request-Id", "theirs", "Set-Cookie", "a=1", "Set-Cookie", "b=2"],
        ...[
          "Set-Cookie",
          "__Host-relay=stolen; Path=/",
          "Connection",
          "X-Hop",
          "X-Hop",
          "1",
          "Keep-Alive",
          "timeout=9",
        ],
        ...["Trailer", "X-After", "Proxy-Authenticate", "Basic", "Cache-Control", "max-age=5", "ETag", '"e"'],
        ...["Location", "/elsewhere", "Retry-After", "7", "Content-Type", "text/html"],
      ]);
      res.end("<script>1</script>");
    });
    const got = await gateway.ask("GET", "/v1/qr", KEY);
    expect([got.status, got.body.toString()]).toEqual([207, "<script>1</script>"]);
    const { date, "x-request-id": id, connection, "transfer-encoding": coding, ...rest } = got.headers;
    expect([date !== undefined, connection, coding]).toEqual([true, "close", "chunked"]);
    expect(id).toMatch(/^req_/);
    expect(rest).toEqual({
      "set-cookie": ["a=1", "b=2"],
      "cache-control": "max-age=5",
      etag: '"e"',
      location: "/elsewhere",
      "retry-after": "7",
      "content-type": "text/html",
      "content-security-policy": "sandbox",
      "x-content-type-options": "nosniff",
      "x-ratelimit-limit": "30",
      "x-ratelimit-remaining": "29",
      "x-ratelimit-reset": "1767225660",
      "x-burst-limit": "5",
      "x-burst-remaining": "4",
      "x-burst-reset": "1767225605",
      "ratelimit-policy": '"sustained";q=30;w=60, "burst";q=5;w=5',
      ratelimit: '"sustained";r=29;t=60, "burst";r=4;t=5',
    });
    expect(got.rawHeaders.filter((name) => name.toLowerCase() === "x-ratelimit-limit")).toHaveLength(1);
  });

  it("that is a redirect is handed through, and nobody follows it", async () => {
    await using gateway = await startBehind(
      {},
      (_req, res) => void res.writeHead(302, { Location: "/v1/health" }).end(),
    );
    const got = await gateway.ask("GET", "/v1/qr", KEY);
    expect([got.status, got.headers["location"], gateway.upstream.seen.length]).toEqual([302, "/v1/health", 1]);
  });

  it("keeps the upstream's limit headers where the relay limits nothing", async () => {
    await using gateway = await startBehind(
      { rows: { ...defaultRows, "GET /v1/qr": false } },
      (_req, res) => void res.writeHead(200, { "X-RateLimit-Limit": "7" }).end(),
    );
    const got = await gateway.ask("GET", "/v1/qr", KEY);
    expect([got.headers["x-ratelimit-limit"], got.headers["x-burst-limit"]]).toEqual(["7", undefined]);
  });

  it("of the upstream's own making counts, whatever it is", async () => {
    await using gateway = await startBehind({}, (_req, res) => void res.writeHead(500).end("broken"));
    const got = await gateway.ask("GET", "/v1/qr", KEY);
    expect([got.status, got.body.toString(), ...left(got)]).toEqual([500, "broken", 29, 4]);
    expect(left(await gateway.ask("GET", "/v1/qr", KEY))).toEqual([28, 3]);
  });
});

describe("an upstream that is busy", () => {
  it.each([
    [429, "17", 17],
    [503, "17", 17],
    [503, "0", 1],
    [503, "-4", 1],
    [429, "999999", 300],
    [429, "soon", 1],
    [429, undefined, 1],
    [503, "Thu, 01 Jan 2026 00:00:42 GMT", 42],
    [503, "Sun, 06 Nov 1994 08:49:37 GMT", 1],
  ])(
    "and says %i with Retry-After %s is answered as back-pressure of %s s, and costs nothing",
    async (status, after, wait) => {
      await using gateway = await startBehind({}, (_req, res) => {
        res.writeHead(status, after === undefined ? {} : { "Retry-After": after }).end("x".repeat(200_000));
      });
      for (let i = 0; i < 3; i++) {
        const got = await gateway.ask("POST", "/v1/withdraw/create", KEY);
        expect([got.status, got.json.code, got.json["retryAfter"]]).toEqual([429, "PROVIDER_BACKPRESSURE", wait]);
        expect(got.rawHeaders.filter((name) => name.toLowerCase() === "retry-after")).toHaveLength(1);
        expect([got.headers["retry-after"], got.headers["content-type"]]).toEqual([
          String(wait),
          "application/problem+json",
        ]);
        expect(left(got)).toEqual([6, 2]);
      }
      // Until that is over it is not asked again.
      expect(gateway.upstream.seen).toHaveLength(1);
      await gateway.clock.advance(wait * 1_000);
      await gateway.ask("POST", "/v1/withdraw/create", KEY);
      expect(gateway.upstream.seen).toHaveLength(2);
    },
  );

  it.each([
    [429, 1],
    [503, 3],
  ])("with %i keeps back that row and key, and with 503 all of them", async (status, held) => {
    const answers = [status, 200, 200];
    await using gateway = await startBehind({}, (_req, res) => {
      res.writeHead(answers.shift() ?? 200, { "Retry-After": "20" }).end("{}");
    });
    await gateway.ask("PATCH", "/v1/qr/a", KEY);
    const others = [
      // The other form of the same operation, another row, another key.
      await gateway.ask("POST", "/v1/qr/update", KEY),
      await gateway.ask("GET", "/v1/qr", KEY),
      await gateway.ask("PATCH", "/v1/qr/a", { "X-API-Key": "key-b" }),
    ];
    const refused = others.filter(({ json }) => json.code === "PROVIDER_BACKPRESSURE");
    expect(refused).toHaveLength(held);
    expect(others[0]).toBe(refused[0]);
    for (const got of refused) expect(got.headers["retry-after"]).toBe("20");
    expect(gateway.upstream.seen).toHaveLength(4 - held);
    await gateway.clock.advance(20_000);
    expect((await gateway.ask("POST", "/v1/qr/update", KEY)).status).toBe(200);
  });

  it("lengthens the wait of who is refused for its own pressing on", async () => {
    const statuses = [200, 200, 503];
    await using gateway = await startBehind({}, (_req, res) => {
      res.writeHead(statuses.shift() ?? 200, { "Retry-After": "30" }).end();
    });
    const codes: unknown[] = [];
    for (const headers of [KEY, KEY, { "X-API-Key": "another" }, KEY]) {
      const got = await gateway.ask("POST", "/v1/withdraw/create", headers);
      codes.push([got.status, got.json.code, got.status === 429 ? got.headers["retry-after"] : undefined]);
    }
    expect(codes).toEqual([
      [200, undefined, undefined],
      [200, undefined, undefined],
      [429, "PROVIDER_BACKPRESSURE", "30"],
      [429, "BURST_EXCEEDED", "30"],
    ]);
  });

  it("has a line of a certain length; who comes when it is full is told so, and pays nothing", async () => {
    const waiting: (() => void)[] = [];
    const { promise: full, resolve } = Promise.withResolvers<void>();
    await using upstream = await startUpstream((_req, res) => {
      waiting.push(() => void res.end("done"));
      if (waiting.length === 3) resolve();
    });
    const trustedProxies = ["127.0.0.1"];
    await using gateway = await startGateway({ upstream: upstream.url, concurrency: 3, trustedProxies });
    const three = ["1", "2", "3"].map((key) =>
      gateway.ask("GET", "/v1/qr", { "X-API-Key": key, "X-Forwarded-For": `192.0.2.${key}` }),
    );
    await full;
    const got = await gateway.ask("GET", "/v1/qr", KEY);
    expect([got.status, got.json.code, got.headers["retry-after"], ...left(got)]).toEqual([
      429,
      "PROVIDER_BACKPRESSURE",
      "1",
      30,
      5,
    ]);
    for (const answer of waiting.splice(0)) answer();
    expect((await Promise.all(three)).map(({ status }) => status)).toEqual([200, 200, 200]);
    const next = gateway.ask("GET", "/v1/qr", KEY);
    while (waiting.length === 0) await new Promise((turn) => void setImmediate(turn));
    waiting[0]?.();
    expect(left(await next)).toEqual([29, 4]);
  });
});

describe("without an upstream", () => {
  it("the relay answers for its own health, within its row, and for nothing else", async () => {
    await using gateway = await startGateway();
    for (let i = 0; i < 10; i++) {
      const got = await gateway.ask("GET", "/v1/health", KEY);
      expect([got.status, got.json["data"], ...left(got)]).toEqual([200, { status: "ok" }, 59 - i, 9 - i]);
    }
    const eleventh = await gateway.ask("GET", "/v1/health", KEY);
    expect([eleventh.status, eleventh.json.code, eleventh.headers["retry-after"]]).toEqual([
      429,
      "BURST_EXCEEDED",
      "5",
    ]);
    for (let i = 0; i < 7; i++) {
      const got = await gateway.ask("POST", "/v1/withdraw/create", KEY);
      expect([got.status, got.json.code, ...left(got)]).toEqual([503, "UPSTREAM_NOT_CONFIGURED", 6, 2]);
      expect(got.headers["retry-after"]).toBe("60");
    }
  });

  it("what anybody may ask for without a limit writes no error and at most 20 lines a minute", async () => {
    await using gateway = await startGateway();
    for (let i = 0; i < 25; i++) {
      const got = await gateway.ask("GET", "/v1/links/pay", KEY);
      expect([got.status, got.json.code]).toEqual([503, "UPSTREAM_NOT_CONFIGURED"]);
    }
    const lines = gateway.log.lines.map(({ level, message }) => `${level} ${message}`);
    expect(lines).toEqual(Array.from({ length: 20 }, () => "info request refused"));
  });
});
