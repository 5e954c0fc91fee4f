import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createCursors } from "../../core/api/http/cursor.ts";
import { createPaths } from "../../core/api/http/paths.ts";
import { makeKeys } from "../../core/runtime/keys/keyring.ts";
import { ordinalFloor } from "../../core/model/ids.ts";

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
const table = createPaths(paths.map((path) => ({ method: "GET", path })));
const found = (path: string): string | undefined => table.find(path, "GET")?.endpoint?.path;

const ids = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_:-]{0,63}$/);

describe("the paths", () => {
  it("finds every path under any ids, however they are encoded, and tells them", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...paths.filter((path) => path !== "/docs/{name}")),
        ids,
        ids,
        fc.boolean(),
        (path, a, b, encoded) => {
          const params: Record<string, string> = {};
          const values = [a, b];
          const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
            const value = (params[name] = values.shift() ?? "");
            return encoded ? value.replaceAll(/[:A]/g, (one) => `%${one.charCodeAt(0).toString(16)}`) : value;
          });
          const match = table.find(target, "GET");
          expect(match).toEqual({ endpoint: { method: "GET", path }, params });
        },
      ),
    );
  });

  it("finds nothing by a path that is spelt otherwise", () => {
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
    fc.assert(
      fc.property(
        fc.constantFrom(...paths.slice(0, 3), "/api-keys/{keyId}/webhooks/{subscriptionId}/test"),
        spoil,
        (path, change) => {
          const real = path.replaceAll(/\{\w+\}/g, "key_1");
          expect(found(change(real))).toBeUndefined();
        },
      ),
    );
  });

  it("never throws, and every parameter it tells is one segment", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary", maxLength: 80 }),
        fc.constantFrom("", "/api-keys/", "/docs/"),
        (text, front) => {
          const match = table.find(front + text, "GET");
          const params = match?.endpoint === undefined ? {} : match.params;
          for (const value of Object.values(params)) expect(value).toMatch(/^[^/\\]+$/);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it("prefers what is written out to a parameter, and takes no route twice", () => {
    expect([found("/docs/page.js"), found("/docs/other.js")]).toEqual(["/docs/page.js", "/docs/{name}"]);
    const methods = createPaths([
      { method: "POST", path: "/links/pay" },
      { method: "GET", path: "/links/{slug}" },
      { method: "DELETE", path: "/links/{slug}" },
    ]);
    expect(methods.find("/links/pay", "POST")?.endpoint?.path).toBe("/links/pay");
    expect(methods.find("/links/pay", "HEAD")).toMatchObject({
      endpoint: { path: "/links/{slug}" },
      params: { slug: "pay" },
    });
    expect(methods.find("/links/pay", "PUT")).toEqual({ methods: ["POST", "GET", "DELETE"] });
    const twice = [1, 2].map(() => ({ method: "GET", path: "/a/{b}" }));
    expect(() => createPaths(twice)).toThrow("two routes are GET /a/{b}");
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
