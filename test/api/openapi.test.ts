import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openApiDocument, openApiRoutes } from "../../core/api/reference/openapi.ts";
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import { PROBLEMS } from "../../core/model/problem.ts";
import { routeShape } from "../../core/limits/route-limits.ts";
import { defaultRows } from "../../config/limits.ts";
import { replied } from "../support/path.ts";
import { HOOK, PUBLISH_TOKEN, serve } from "./serve.ts";
import type { Got, Served } from "./serve.ts";
import { type Described, type Document, unpromised } from "./walk.ts";
import { CHECK_TOKEN } from "../support/gateway.ts";
import { startThrough } from "./through.ts";
import type { Through } from "./through.ts";

let api: Served;
let document: Document;
const attempt = { cycle: 0, number: 1, startedAt: 0, durationMs: 1, statusCode: 200 };
let through: Through;
beforeAll(async () => {
  through = await startThrough();
  api = await serve({
    more: {
      ping: async () => ({ ordinal: "0".repeat(26), attempt, away: false }),
      portal: {
        links: { mint: async () => ({ id: "lnk_1", token: "t", expiresAt: 0 }), revoke: async () => {} },
        pageUrl: () => "https://relay.example/portal",
      },
    },
    routes: [...openApiRoutes({ operations: [], routes: [], version: "0" }), ...through.routes],
  });
  document = openApiDocument({
    operations: api.operations,
    routes: api.routes.filter(({ path }) => path !== "/openapi.json"),
    version: "1.2.3",
  }) as unknown as Document;
  await api.path.start();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await through[Symbol.asyncDispose]();
});

const TOKENS = { publish: PUBLISH_TOKEN, check: CHECK_TOKEN, bearer: "all+mfa" };
/** The Bearer token that an operation asks for. */
const bearerOf = ({ security }: Described): "publish" | "check" | "bearer" =>
  security?.some((one) => "publish" in one) ? "publish" : security?.some((one) => "check" in one) ? "check" : "bearer";

describe("the document", () => {
  it("is served, and is OpenAPI 3.1", async () => {
    const got = await api.ask("GET", "/openapi.json", { token: false });
    expect([got.status, got.headers["content-type"], got.json["openapi"]]).toEqual([200, "application/json", "3.1.0"]);
  });

  it("names every operation once, and every schema that it points to", () => {
    const ids = Object.values(document.paths).flatMap((item) =>
      Object.values(item).map((one) => (one as unknown as { operationId: string }).operationId),
    );
    expect(new Set(ids).size).toBe(ids.length);
    const refs = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, ref]) => ref ?? "");
    for (const ref of refs)
      expect(document.components.schemas).toHaveProperty(ref.replace("#/components/schemas/", ""));
  });

  it("names operations as people would, and each envelope and item", () => {
    const mechanical = /^(?:get|post|put|patch|delete)(?:V1|LimitsCheckPath)/;
    const operations = Object.values(document.paths)
      .flatMap((item) => Object.values(item) as (Described & { readonly operationId: string })[])
      .filter(({ operationId }) => !mechanical.test(operationId));
    const unnamed = operations.flatMap(({ operationId, responses }) =>
      Object.entries(responses).flatMap(([status, { content = {} }]) => {
        const schema = content["application/json"]?.schema;
        return schema === undefined || "$ref" in schema ? [] : [`${operationId} ${status}`];
      }),
    );
    expect(unnamed).toEqual([]);
    for (const { operationId } of operations) {
      expect(operationId).toMatch(/^[a-z]+(?:[A-Z][a-z]+)*$/);
      expect(operationId).not.toMatch(/KeyId|EventId|SubscriptionId|^(?:post|patch)/);
    }
    for (const [name, schema] of Object.entries(document.components.schemas)) {
      const { data } = (schema["properties"] ?? {}) as Record<string, Record<string, unknown>>;
      if (/(?:List|Page)$/.test(name))
        expect(data, name).toMatchObject({ type: "array", items: { $ref: expect.any(String) } });
      if (name.endsWith("Envelope") && name !== "AcceptedEnvelope") expect(data, name).toHaveProperty("$ref");
    }
  });

  it("has no schema that generators of code refuse or take for something else", () => {
    const holding = new Set(["items", "not", "contains", "propertyNames", "const"]);
    const odd: string[] = [];
    const walk = (value: unknown, path: string): void => {
      if (typeof value !== "object" || value === null) return;
      for (const [name, one] of Object.entries(value)) {
        if (name === "example" || name === "examples") continue;
        const named = /\/(?:properties|\$defs|allOf|anyOf|oneOf|prefixItems)$/.test(path);
        if (typeof one === "boolean" && (holding.has(name) || named)) odd.push(`${path}/${name}`);
        walk(one, `${path}/${name}`);
      }
    };
    const schema = { type: "object", properties: { any: true, none: false, items: { items: false } }, allOf: [true] };
    const types = { "a:b": { schema, validate: "off" }, "a.b": { example: 1, validate: "off" } } as const;
    const typed = openApiDocument({ operations: api.operations, routes: api.routes, version: "1", types: () => types });
    walk(typed, "");
    expect(odd).toEqual([]);
    const webhooks = Object.values(typed["webhooks"] as Record<string, { post: { operationId: string } }>);
    const ids = webhooks.map(({ post }) => post.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).toContain("receiveAB2");
    for (const id of ids) expect(id).toMatch(/^receive[A-Za-z0-9]+$/);
  });

  it("speaks of no error that is not in the table", () => {
    for (const [, code] of JSON.stringify(document).matchAll(/`([A-Z_]+)`/g))
      expect(PROBLEMS).toHaveProperty(code ?? "");
  });
});

describe("the gateway in the document", () => {
  it("is there with its methods, the key that it counts by and does not ask for, and the codes of a 429", () => {
    const one = document.paths["/v1/qr/{slug}"] as Record<string, Described>;
    expect(Object.keys(one).toSorted()).toEqual(["delete", "get", "patch"]);
    expect(one["patch"]?.security).toEqual([{}, { apiKey: [] }]);
    expect(document.components.securitySchemes["apiKey"]).toMatchObject({ in: "header", name: "X-Client-Key" });
    for (const code of ["ABUSE_SUSPEND", "RATE_LIMIT_EXCEEDED", "BURST_EXCEEDED", "PROVIDER_BACKPRESSURE"])
      expect(JSON.stringify(one["patch"]?.responses["429"])).toContain(code);
    expect(Object.keys(document.paths["/limits/check/{path}"] ?? {})).toHaveLength(5);
  });

  it("asks for no key and no token of a proxy where there is neither", () => {
    const plain = openApiDocument({ operations: api.operations, routes: [], version: "1" }) as unknown as Document;
    expect(Object.keys(plain.components.securitySchemes)).toEqual(["bearer"]);
  });
});

describe("every operation", () => {
  it("has a row in the table of limits", () => {
    const rows = new Set(Object.keys(defaultRows).map(routeShape));
    const names = api.operations.map(({ method, path, limit }) => limit ?? `${method} ${path}`);
    expect(names.filter((name) => name === false || !rows.has(routeShape(name)))).toEqual([]);
  });

  it("answers as the document says, when all goes well and when it does not", async () => {
    const keyId = "key_walk";
    const made = await api.ask("POST", `/api-keys/${keyId}/webhooks`, {
      body: {
        ...HOOK,
        description: "d",
        headers: { "X-A": "b" },
        rateLimit: { perSecond: 1_000 },
        timeoutMs: 2_000,
        retry: { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 },
      },
    });
    const { id } = made.json.data as unknown as { id: string };
    api.path.otherwise = replied(500, { excerpt: Buffer.from("no") });
    const body = { type: "deposit:paid", keyId, data: { x: 1 } };
    const published = await api.ask("POST", "/events", { body, token: PUBLISH_TOKEN });
    const event = (published.json.data as unknown as { id: string }).id;
    const place = (path: string): string =>
      path
        .replace("{keyId}", keyId)
        .replace("{subscriptionId}", id)
        .replace("{eventId}", event)
        .replace("{slug}", "abc")
        .replace("{id}", "7")
        .replace("{path}", "v1/qr/abc");
    const wrong: string[] = [];
    const seen = new Set<string>();
    const methods = ["get", "patch", "post", "put", "delete"];
    const all = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => ({ path, method: method.toUpperCase() })),
    );
    all.sort((a, b) => methods.indexOf(a.method.toLowerCase()) - methods.indexOf(b.method.toLowerCase()));
    for (const { path, method } of all) {
      // Of any length, and no JSON.
      if (path.endsWith("/stream") || path === "/relay/backup") continue;
      const token = TOKENS[bearerOf(document.paths[path]?.[method.toLowerCase()] as Described)];
      const headers = { "X-Original-Method": "GET", "X-Original-URI": "/v1/qr/abc", "X-Client-Key": "a" };
      const good = path === "/events" ? body : path.endsWith("/webhooks") ? HOOK : {};
      const asked: Got[] = [
        await api.ask(method, place(path), {
          token,
          headers,
          body: method === "POST" || method === "PATCH" ? good : undefined,
        }),
        await api.ask(method, place(path), { token: false }),
        await api.ask(method, place(path).replace(keyId, "key_not_mine"), { token: "key_1", body: good }),
        await api.ask(method, place(path), { token, body: "{" }),
        await api.ask(method, place(path), { token, body: { surprise: 1 } }),
        await api.ask(method, `${place(path)}?surprise=1`, { token, body: good }),
        await api.ask(method, place(path), { token, body: "x".repeat(70_000), headers: { "content-type": "a/b" } }),
        await api.ask(method, place(path), { token, headers: { accept: "text/nothing" } }),
      ];
      for (const got of asked) {
        wrong.push(...unpromised(document, method, path, got));
        seen.add(`${method} ${got.status}`);
      }
      // The upstream decides what passes the gateway.
      if (!path.startsWith("/v1/")) expect(asked[0]?.status, `${method} ${path} ${asked[0]?.text}`).toBeLessThan(410);
    }
    wrong.push(...unpromised(document, "POST", "/api-keys/{keyId}/webhooks", made));
    expect(wrong).toEqual([]);
    expect([...seen]).toEqual(expect.arrayContaining(["GET 200", "POST 201", "POST 202", "DELETE 204", "GET 404"]));
  });
});

describe("the refusals that are hard to come by", () => {
  it("are named: no room for a body, or for a stream", () => {
    const all = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.values(item).map((one) => ({ path, one })),
    );
    const bounded = all.filter(({ path, one }) => one.requestBody !== undefined || path.endsWith("/stream"));
    const named = ({ one }: (typeof all)[number]) =>
      one.responses["429"]?.description.includes("PROVIDER_BACKPRESSURE");
    expect(bounded.filter((one) => named(one) !== true).map(({ path }) => path)).toEqual([]);
  });

  it("are named: a damaged subscription", async () => {
    const { storage } = api.path;
    const hooks = "/api-keys/key_damaged/webhooks";
    const made = await api.ask("POST", hooks, { body: HOOK });
    const { id } = made.json.data as unknown as { id: string };
    const [row] = await storage.range(SUBSCRIPTION.under({ keyId: "key_damaged" }));
    await storage.commit([{ op: "put", key: row?.key as string, value: "damaged" }]);
    const event = { event: { type: "deposit:paid", data: {} } };
    const asked = { "/test": {}, "/filter/test": event, "/transform/test": event, "/rotate-secret": {} };
    for (const [path, body] of Object.entries(asked)) {
      const got = await api.ask("POST", `${hooks}/${id}${path}`, { body, token: "all+mfa" });
      expect([path, got.status, got.json.code]).toEqual([path, 409, "CONFLICT"]);
      expect(unpromised(document, "POST", `/api-keys/{keyId}/webhooks/{subscriptionId}${path}`, got)).toEqual([]);
    }
  });
});
