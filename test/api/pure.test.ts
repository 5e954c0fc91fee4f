import fc from "fast-check";
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { createApp } from "../../core/api/http/app.ts";
import { createCursors } from "../../core/api/resources/lists.ts";
import { createNoRoute } from "../../core/api/http/paths.ts";
import { makeKeys } from "../../core/runtime/keys/keyring.ts";
import { ordinalFloor } from "../../core/model/ids.ts";
import type { Route } from "../../core/ports/route.ts";
import { testClock } from "../support/clock.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";

const paths = [
  "/events",
  "/api-keys",
  "/api-keys/{keyId}/webhooks",
  "/api-keys/{keyId}/webhooks/{subscriptionId}",
  "/api-keys/{keyId}/webhooks/{subscriptionId}/test",
  "/api-keys/{keyId}/events/{eventId}",
  "/docs/page.js",
  "/docs/{name}",
];

interface Found {
  readonly status: number;
  readonly path?: string;
  readonly params?: Readonly<Record<string, string>>;
}

/** Serves these routes, with what each was found by. It takes any text as a path, also such as no client can send. */
function serving(
  routes: readonly Pick<Route, "method" | "path">[],
): (method: string, target: string) => Promise<Found> {
  let end: (found: Found) => void;
  let found: Omit<Found, "status"> = {};
  const app = createApp({
    clock: testClock(),
    log: quietLog(),
    metrics: { ...quietMetrics(), count: (_name, { status } = {}) => end({ status: Number(status), ...found }) },
    auth: { ready: () => true, authenticate: async () => ({ refused: "nobody asks" }) },
    limits: { check: () => undefined, unauthenticated: async () => ({ headers: {}, giveBack: async () => ({}) }) },
    stepUp: { acr: [], amr: [], maxAgeMs: 0 },
    trustedProxies: [],
    operations: [],
    routes: routes.map((route) => ({
      ...route,
      async handle({ params }) {
        found = { path: route.path, params };
        return { status: 200 };
      },
    })),
  });
  return (method, target) => {
    const req = Object.assign(new IncomingMessage(new Socket()), { method, url: target, httpVersion: "1.0" });
    found = {};
    return new Promise((resolve) => {
      end = resolve;
      app(req, new ServerResponse(req));
    });
  };
}
const ask = serving(paths.map((path) => ({ method: "GET", path })));

const ids = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_:-]{0,63}$/);

describe("the paths", () => {
  it("finds every path under any ids, however they are encoded, and tells them", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...paths.filter((path) => path !== "/docs/{name}")),
        ids,
        ids,
        fc.boolean(),
        async (path, a, b, encoded) => {
          const params: Record<string, string> = {};
          const values = [a, b];
          const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
            const value = (params[name] = values.shift() ?? "");
            return encoded ? value.replaceAll(/[:A]/g, (one) => `%${one.charCodeAt(0).toString(16)}`) : value;
          });
          expect(await ask("GET", target)).toEqual({ status: 200, path, params });
        },
      ),
    );
  });

  it("finds nothing by a path that is spelt otherwise", async () => {
    const spoil = fc.constantFrom<(path: string) => string>(
      (path) => `${path}/`,
      (path) => `/${path}`,
      (path) => path.replace("/", "//"),
      (path) => path.replace(/\/(\w)/, "%2f$1"),
      (path) => path.replace(/(.)$/, "$1%2Fx"),
      (path) => path.replace(/(.)$/, "$1%5cx"),
      (path) => `${path}/..`,
      (path) => `/.${path}`,
      (path) => path.replace(/[a-z]/, (one) => one.toUpperCase()),
      (path) => path.replace(/[a-z]/, (one) => `%${one.charCodeAt(0).toString(16)}`),
      (path) => `${path}%00`,
      (path) => `${path}%`,
      (path) => `${path}%c3%28`,
    );
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...paths.slice(0, 3), "/api-keys/{keyId}/webhooks/{subscriptionId}/test"),
        spoil,
        async (path, change) => {
          const real = path.replaceAll(/\{\w+\}/g, "key_1");
          expect(await ask("GET", change(real))).toEqual({ status: 404 });
        },
      ),
    );
  });

  it("answers any text, and every parameter it tells is one segment", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: "binary", maxLength: 80 }),
        fc.constantFrom("", "/api-keys/", "/docs/"),
        async (text, front) => {
          const { status, params = {} } = await ask("GET", front + text);
          expect([200, 404]).toContain(status);
          for (const value of Object.values(params)) expect(value).toMatch(/^[^/\\]+$/);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it("prefers what is written out to a parameter, and takes no route twice", async () => {
    expect((await ask("GET", "/docs/page.js")).path).toBe("/docs/page.js");
    expect((await ask("GET", "/docs/other.js")).path).toBe("/docs/{name}");
    const links = serving([
      { method: "POST", path: "/links/pay" },
      { method: "GET", path: "/links/{slug}" },
      { method: "DELETE", path: "/links/{slug}" },
    ]);
    expect(await links("POST", "/links/pay")).toEqual({ status: 200, path: "/links/pay", params: {} });
    expect(await links("HEAD", "/links/pay")).toEqual({ status: 200, path: "/links/{slug}", params: { slug: "pay" } });
    expect(await links("PUT", "/links/pay")).toEqual({ status: 405 });
    const twice = (["{b}", "{c}"] as const).map((name) => ({ method: "GET" as const, path: `/a/${name}` }));
    expect(() => serving(twice)).toThrow("two routes are GET /a/{c}");
  });

  it("names the methods of all routes that a path has, those of what is written out first", () => {
    const noRoute = createNoRoute([
      { method: "GET", path: "/links/{slug}" },
      { method: "DELETE", path: "/links/{slug}" },
      { method: "POST", path: "/links/pay" },
    ]);
    expect(noRoute("/links/pay").extras.headers).toEqual({ Allow: "POST, GET, HEAD, DELETE" });
    expect(noRoute("/links/%2f").code).toBe("NOT_FOUND");
  });
});

describe("a cursor", () => {
  const key = Buffer.alloc(32, 1).toString("base64");
  const cursors = createCursors(makeKeys({ master: key, signing: key, publishToken: "t" }));
  const place = ordinalFloor(1_767_225_600_000);
  const refused = (cursor: string, list = "a"): void =>
    expect(() => cursors.read(cursor, list)).toThrow(expect.objectContaining({ code: "VALIDATION_FAILED" }));

  it("leads back to its place in its own list, and to no other", () => {
    const cursor = cursors.write(place, "a") ?? "";
    expect(cursor).toMatch(/^[\w-]+$/);
    expect(cursors.read(cursor, "a")).toBe(place);
    refused(cursor, "b");
    expect([cursors.write(undefined, "a"), cursors.read(undefined, "a")]).toEqual([undefined, undefined]);
  });

  it("of another relay is refused", () => {
    const other = Buffer.alloc(32, 2).toString("base64");
    const foreign = createCursors(makeKeys({ master: other, signing: other, publishToken: "t" }));
    refused(foreign.write(place, "a") ?? "");
  });

  it("is refused when anything about it was changed", () => {
    const cursor = cursors.write(place, "a") ?? "";
    fc.assert(
      fc.property(fc.nat(cursor.length - 1), fc.stringMatching(/^[A-Za-z0-9_=+/-]$/), (at, one) => {
        fc.pre(cursor[at] !== one);
        refused(cursor.slice(0, at) + one + cursor.slice(at + 1));
        refused(cursor.slice(0, at));
      }),
    );
    fc.assert(
      fc.property(fc.string({ maxLength: 200 }), (text) => {
        refused(text);
      }),
    );
  });
});
