import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PROBLEMS, problemType } from "../../core/model/problem.ts";
import type { ProblemCode } from "../../core/model/problem.ts";
import { StorageError } from "../../core/model/errors.ts";
import type { RouteRequest } from "../../core/ports/route.ts";
import { HOOK, LIST, serve } from "./serve.ts";
import type { Got, Served } from "./serve.ts";

let api: Served;
const broken = { with: undefined as unknown };
const routes = [
  {
    method: "GET" as const,
    path: "/broken",
    handle: () => Promise.reject(broken.with as Error),
  },
  {
    method: "GET" as const,
    path: "/unsendable",
    handle: () => Promise.resolve({ status: 200, headers: { "X-Bad": "a\nb" }, body: "secret" }),
  },
  {
    method: "GET" as const,
    path: "/own:(names)*/{sub-id}",
    handle: ({ params }: RouteRequest) => Promise.resolve({ status: 200, body: JSON.stringify(params) }),
  },
];
beforeAll(async () => {
  api = await serve({
    rows: {
      "GET /api-keys/{keyId}/webhooks/{subscriptionId}": { perMinute: 4, per5s: 2 },
      "GET /broken": { perMinute: 1, per5s: 1 },
    },
    routes: [...routes, { ...routes[0], path: "/limited", limit: "GET /broken", principal: () => "p" } as never],
  });
});
afterAll(() => api[Symbol.asyncDispose]());

function isProblem(got: Got, code: ProblemCode): void {
  const [status, title] = PROBLEMS[code];
  expect(got.status).toBe(status);
  expect(got.headers["content-type"]).toBe("application/problem+json");
  expect(got.json).toMatchObject({
    type: problemType(code),
    title,
    status,
    code,
    instance: got.headers["x-request-id"],
  });
  expect(got.json["detail"]).toEqual(expect.any(String));
  expect(got.headers).toMatchObject({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
}

describe("a path", () => {
  it.each([
    "/",
    "/nowhere",
    "/API-KEYS/key_1/webhooks",
    "/api-keys/key_1/webhooks/",
    "//api-keys/key_1/webhooks",
    "/api-keys//webhooks",
    "/api-keys/key_1%2Fwebhooks",
    "/api-keys/key%2F1/webhooks",
    "/api-keys/key_1/webhooks/a/b",
    "/api-keys/./webhooks",
    "/api-keys/../api-keys/key_1/webhooks",
    "/api-keys/%2e%2e/webhooks",
    "/api-keys/%zz/webhooks",
    "/api-keys/%ff/webhooks",
    "/api-keys/a%00b/webhooks",
    "/api-keys/key_1;x/webhook",
    "/healthz/",
    "/%68ealthz",
    `/api-keys/${"k".repeat(3_000)}/webhooks`,
  ])("%s is not found, with a token or without", async (target) => {
    for (const token of ["all", false] as const) isProblem(await api.ask("GET", target, { token }), "NOT_FOUND");
  });

  it("may come in absolute form, whatever host it names", async () => {
    const answer = await api.raw(
      "GET http://elsewhere.example/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  });

  it.each(["*", "healthz", "http://", "ftp://x/healthz", "//[bad/healthz"])("%s is no path", async (target) => {
    const answer = await api.raw(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 40[04] /);
  });

  it.each(["bad host", "[::1", "a,b", "", "x:99999999", "user@host"])("is found under the Host %j", async (host) => {
    const answer = await api.raw(`GET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  });
});

describe("a path and a Host that make no URL together", () => {
  it.each(["x:99999", "[::::]"])("are answered like any path that there is not (%s)", async (host) => {
    const answer = await api.raw(`GET /a/../healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 404 /);
  });
});

describe("a route of a plug-in", () => {
  it("may have any characters in its path and in the names of its parameters", async () => {
    expect((await api.ask("GET", "/own:(names)*/a%20b", { token: false })).json).toEqual({ "sub-id": "a b" });
    isProblem(await api.ask("GET", "/ownx/a", { token: false }), "NOT_FOUND");
  });

  it("whose answer cannot be sent is answered as a fault of the relay", async () => {
    const got = await api.ask("GET", "/unsendable", { token: false });
    isProblem(got, "INTERNAL_ERROR");
    expect(got.text).not.toContain("secret");
  });
});

describe("a method", () => {
  it.each([
    ["PUT", LIST, "POST, GET, HEAD"],
    ["OPTIONS", LIST, "POST, GET, HEAD"],
    ["DELETE", "/events", "POST"],
    ["GET", "/events", "POST"],
    ["TRACE", "/healthz", "GET, HEAD"],
    ["POST", `${LIST}/sub_1`, "GET, HEAD, PATCH, DELETE"],
  ])("%s %s is answered with what is allowed", async (method, target, allow) => {
    const got = await api.ask(method, target, { token: false });
    isProblem(got, "METHOD_NOT_ALLOWED");
    expect(got.headers.allow).toBe(allow);
    expect(Object.keys(got.headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  });

  it("HEAD is GET without a body", async () => {
    const [get, head] = [await api.ask("GET", LIST), await api.ask("HEAD", LIST)];
    expect([head.status, head.text]).toEqual([200, ""]);
    expect(head.headers["content-length"]).toBe(get.headers["content-length"]);
    const missing = await api.ask("HEAD", "/nowhere");
    expect([missing.status, missing.text]).toEqual([404, ""]);
  });
});

describe("authentication", () => {
  it("is asked for before anything about the body is said", async () => {
    for (const token of [false, "bad", ["Bearer all", "Bearer all"]] as const) {
      const got = await api.ask("POST", LIST, { token, body: "{", headers: { "content-type": "text/plain" } });
      isProblem(got, "UNAUTHENTICATED");
      expect(got.headers["www-authenticate"]).toMatch(/^Bearer /);
    }
  });

  it("that fails too often from one address is answered 429, and a valid token passes all the same", async () => {
    const other = await serve();
    const tries = await Promise.all(Array.from({ length: 305 }, () => other.ask("GET", LIST, { token: "bad" })));
    expect(tries.filter(({ status }) => status === 401)).toHaveLength(300);
    const refused = tries.filter(({ status }) => status === 429);
    expect(refused).toHaveLength(5);
    expect(Number(refused[0]?.headers["retry-after"])).toBeGreaterThan(0);
    expect((await other.ask("GET", LIST)).status).toBe(200);
    await other[Symbol.asyncDispose]();
  });
});

describe("limits", () => {
  it("count every answer after authentication, and come before the body", async () => {
    const target = `${LIST}/sub_none`;
    const [first, second, third] = [
      await api.ask("GET", target),
      await api.ask("GET", target),
      await api.ask("GET", target, { headers: { accept: "text/html" } }),
    ];
    expect([first.status, second.status]).toEqual([404, 404]);
    expect(first.headers).toMatchObject({
      "x-ratelimit-limit": "4",
      "x-ratelimit-remaining": "3",
      "x-burst-limit": "2",
      "x-burst-remaining": "1",
      "ratelimit-policy": '"sustained";q=4;w=60, "burst";q=2;w=5',
    });
    isProblem(third, "BURST_EXCEEDED");
    expect(third.headers["retry-after"]).toBe("5");
    expect(third.json["retryAfter"]).toBe(5);
    await api.path.clock.advance(5_000);
    expect((await api.ask("GET", target)).status).toBe(404);
    expect((await api.ask("HEAD", target)).headers["x-ratelimit-remaining"]).toBe("0");
    expect((await api.ask("GET", target)).json.code).toBe("RATE_LIMIT_EXCEEDED");
    expect((await api.ask("GET", target, { token: "key_1" })).status).toBe(404);
  });

  it("get their slot back when the fault is ours", async () => {
    broken.with = new Error("ours");
    for (let i = 0; i < 3; i++) {
      const got = await api.ask("GET", "/limited");
      isProblem(got, "INTERNAL_ERROR");
      expect(got.headers["x-ratelimit-remaining"]).toBe("1");
    }
  });
});

describe("a body", () => {
  const post = (body: unknown, headers: Record<string, string> = {}): Promise<Got> =>
    api.ask("POST", LIST, { body, headers });

  it.each([
    ["text/plain", {}],
    ["", {}],
    ["application/x-www-form-urlencoded", {}],
    ["application/jsonx", {}],
    ["application/json; charset=latin1", {}],
    ["application/json", { "content-encoding": "gzip" }],
  ])("of type %j with %j is refused", async (type, more) => {
    isProblem(await post(JSON.stringify(HOOK), { "content-type": type, ...more }), "UNSUPPORTED_MEDIA_TYPE");
  });

  it.each(["application/json", "APPLICATION/JSON", 'application/json; charset="UTF-8"', "application/json;x=y"])(
    "of type %s is read",
    async (type) => {
      expect((await post(JSON.stringify(HOOK), { "content-type": type })).status).toBe(201);
    },
  );

  it.each([
    ["{", "cut off"],
    ["", "empty"],
    ['{"url":1,}', "with a comma too many"],
    [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), "that is no UTF-8"],
    [`{"url":${"[".repeat(64)}${"]".repeat(64)}}`, "65 levels deep"],
    ["[".repeat(60_000), "of brackets"],
    ["NaN", "that is no JSON"],
  ] as const)("%j is refused: it is %s", async (body, _why) => {
    isProblem(await post(body), "INVALID_JSON");
  });

  it("with a byte order mark in front is read", async () => {
    expect((await post(`\ufeff${JSON.stringify(HOOK)}`)).status).toBe(201);
  });

  it("with a name twice is refused, wherever it stands and however it is written", async () => {
    const body = `{"url":"${HOOK.url}","events":["a"],"\\u0075rl":"x","retry":{"attempts":1,"attempts":2}}`;
    const got = await post(body);
    isProblem(got, "VALIDATION_FAILED");
    expect(got.json.errors?.map(({ path }) => path)).toEqual(["url", "retry.attempts"]);
  });

  it.each([
    [`{"url":"${HOOK.url}","events":["a"],"__proto__":{"status":"disabled"}}`, "__proto__"],
    [`{"url":"${HOOK.url}","events":["a"],"headers":{"__pro\\u0074o__":"x"}}`, "headers.__proto__"],
    [`{"url":"${HOOK.url}","events":["a"],"headers":{"\\u005f_proto__":"x"}}`, "headers.__proto__"],
    [`{"url":"${HOOK.url}","events":[{"__proto__":1}]}`, "events[0].__proto__"],
  ])("%s is refused like every name that is not known", async (body, path) => {
    const got = await post(body);
    isProblem(got, "VALIDATION_FAILED");
    expect(got.json.errors?.map((error) => error.path)).toContain(path);
  });

  it("of more than 64 KiB is refused, announced or not", async () => {
    const fits = JSON.stringify({ ...HOOK, description: "d" }).padEnd(65_536, " ");
    expect((await post(fits)).status).toBe(201);
    const got = await post(`${fits} `);
    isProblem(got, "PAYLOAD_TOO_LARGE");
    expect(got.headers.connection).toBe("close");
    isProblem(await post(`${fits} `, { "transfer-encoding": "chunked" }), "PAYLOAD_TOO_LARGE");
  });

  it("must be welcome as JSON", async () => {
    for (const accept of ["text/html", "application/xml;q=1", "application/json;q=0", "*/*;q=0"]) {
      isProblem(await api.ask("GET", LIST, { headers: { accept } }), "NOT_ACCEPTABLE");
    }
    for (const accept of ["*/*", "application/*", "text/html, */*;q=0.1", "application/json", ""]) {
      expect((await api.ask("GET", LIST, { headers: { accept } })).status).toBe(200);
    }
  });
});

describe("a fault", () => {
  it.each([
    [new StorageError("unavailable", "redis://secret@host"), "STORAGE_UNAVAILABLE"],
    [new StorageError("uncertain", "secret"), "STORAGE_UNAVAILABLE"],
    [new StorageError("full", "secret"), "STORAGE_FULL"],
    [new StorageError("broken", "secret"), "INTERNAL_ERROR"],
    [new TypeError("secret"), "INTERNAL_ERROR"],
    ["secret", "INTERNAL_ERROR"],
  ] as const)("%s is told without its text", async (error, code) => {
    broken.with = error;
    const got = await api.ask("GET", "/broken");
    isProblem(got, code);
    expect(got.text + JSON.stringify(got.headers)).not.toContain("secret");
    if (got.status === 503) expect(Number(got.headers["retry-after"])).toBeGreaterThan(0);
    const line = api.log.lines.findLast(({ level }) => level === "error");
    expect(line?.fields["requestId"]).toBe(got.headers["x-request-id"]);
  });

  it("of one part makes the relay not ready, and says which", async () => {
    const parts = { storage: { ready: true }, auth: { ready: false, state: "no keys yet" } };
    await using other = await serve({ parts: () => parts });
    const got = await other.ask("GET", "/readyz", { token: false });
    expect([got.status, got.json.data]).toEqual([503, { status: "not ready", parts }]);
    expect((await other.ask("GET", "/healthz", { token: false })).status).toBe(200);
  });

  it("of a part that the relay serves without names no address of another system", async () => {
    const state = "connect ECONNREFUSED 10.0.0.5:5672";
    const parts = { "source:amqp": { ready: false, state, required: false }, "source:nats": { ready: true } };
    await using other = await serve({ parts: () => parts });
    const { status, json } = await other.ask("GET", "/readyz", { token: false });
    const shown = { ...parts, "source:amqp": { ...parts["source:amqp"], state: "connect ECONNREFUSED …" } };
    expect([status, json.data]).toEqual([200, { status: "degraded", parts: shown }]);
  });
});

it("an error never repeats the query", async () => {
  const got = await api.ask("GET", `${LIST}x?token=hunter2`);
  expect(got.text).not.toContain("hunter2");
});

it("the client's address is the one that trusted proxies saw, and no other", async () => {
  const other = await serve({ trustedProxies: ["127.0.0.1", "10.0.0.0/8"] });
  const seen = async (forwarded: string): Promise<unknown> => {
    await other.ask("POST", LIST, { body: HOOK, headers: { "x-forwarded-for": forwarded } });
    const { data } = (await other.ask("GET", "/api-keys/key_1/audit?limit=1")).json;
    return (data as unknown as { address: string }[])[0]?.address;
  };
  expect(await seen("203.0.113.9")).toBe("203.0.113.9");
  expect(await seen("198.51.100.1, 203.0.113.9, 10.1.2.3")).toBe("203.0.113.9");
  expect(await seen("198.51.100.1, junk, 10.1.2.3")).toBe("10.1.2.3");
  expect(await seen("[2001:db8::1]:443")).toBe("2001:db8::1");
  await other[Symbol.asyncDispose]();
  await api.ask("POST", "/api-keys/key_x/webhooks", { body: HOOK, headers: { "x-forwarded-for": "203.0.113.9" } });
  const { data } = (await api.ask("GET", "/api-keys/key_x/audit")).json;
  expect(data).toMatchObject([{ address: "127.0.0.1" }]);
});
