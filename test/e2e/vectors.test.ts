// Every token vector on every management route; limits off, then on. The vectors of URLs: test/api/guarded.test.ts.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { jwt } from "../../plugins/auth/jwt.ts";
import { startRelay, type Answered, type TestRelay } from "../support/relay.ts";
import { AUDIENCE, buildVector, goodToken, ISSUER, jwk, SECRET } from "../support/tokens.ts";
import { tokenVectors } from "../support/vectors.ts";

const rsa = jwt({ keys: [jwk], algorithms: ["RS256"], issuer: ISSUER, audience: AUDIENCE, typ: "at+jwt" });
const shared = jwt({ secret: SECRET, algorithms: ["HS256"], issuer: ISSUER, audience: AUDIENCE });
const KEY = "/api-keys/key_a";
const HOOK = { url: "https://93.184.215.14/hook", events: ["deposit:paid"] };

/** Every management route; `{sub}` and `{event}` are real ones. */
const ROUTES: readonly (readonly [method: string, path: string, body?: unknown])[] = [
  ["GET", "/api-keys"],
  ["GET", "/event-types"],
  ["GET", "/event-types/a:b"],
  ["GET", "/transforms"],
  ["GET", `${KEY}/webhooks`],
  ["POST", `${KEY}/webhooks`, HOOK],
  ["GET", `${KEY}/webhooks/{sub}`],
  ["PATCH", `${KEY}/webhooks/{sub}`, { description: "x" }],
  ["POST", `${KEY}/webhooks/{sub}/rotate-secret`],
  ["POST", `${KEY}/webhooks/{sub}/test`],
  ["GET", `${KEY}/webhooks/{sub}/deliveries`],
  ["POST", `${KEY}/webhooks/{sub}/replay`, {}],
  ["GET", `${KEY}/events`],
  ["GET", `${KEY}/events/{event}`],
  ["POST", `${KEY}/events/{event}/replay`, {}],
  ["POST", `${KEY}/replay`, {}],
  ["GET", `${KEY}/stats`],
  ["GET", `${KEY}/stream`],
  ["GET", `${KEY}/audit`],
  ["GET", "/relay/status"],
  ["DELETE", `${KEY}/webhooks/{sub}`],
];

describe.each([
  ["limits off", {}],
  ["limits and abuse on", { limits: {}, abuse: {} }],
])("token vectors on every route, %s", (mode, limits) => {
  let relays: Record<"rsa" | "shared", TestRelay>;
  let ids: Record<string, string>;
  beforeAll(async () => {
    relays = { rsa: await startRelay({ auth: rsa, ...limits }), shared: await startRelay({ auth: shared, ...limits }) };
    const token = goodToken(Date.now(), { sub: "owner" });
    const made = await relays.rsa.call("POST", `${KEY}/webhooks`, { token, body: HOOK });
    const event = await relays.rsa.publish({ type: "a:b", keyId: "key_a", data: 1 });
    ids = { sub: made.json.data.id as string, event: event.json.data.id as string };
  });
  afterAll(async () => {
    for (const relay of Object.values(relays)) await relay[Symbol.asyncDispose]();
  });

  const place = (path: string): string => path.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? "");

  const hostile = tokenVectors.filter(
    ({ id, group, expect_status }) => expect_status === 401 && group !== "step-up" && id !== "JWT-073",
  );
  it.each(hostile)("$id: $name", async ({ id, server_mode }) => {
    const relay = server_mode === "HS256" ? relays.shared : relays.rsa;
    const bodies = new Set<string>();
    for (const [method, path, body] of ROUTES) {
      const built = buildVector(id, Date.now());
      const headers = {
        ...built?.headers,
        ...(built?.authorization !== undefined && { authorization: built.authorization }),
      };
      const target = place(path) + (built?.query ?? "");
      const got = await relay.call(method, target, { token: null, headers, ...(body !== undefined && { body }) });
      // With limits on, an address that fails 300 times a minute is told so instead.
      if (mode !== "limits off" && got.status === 429) continue;
      expect([method, path, got.status, got.json?.code]).toEqual([method, path, 401, "UNAUTHENTICATED"]);
      expect(got.headers["www-authenticate"]).toMatch(/^Bearer /);
      bodies.add(got.text.replace(/req_[0-9a-z]{26}/, "req"));
    }
    expect(bodies.size).toBeLessThanOrEqual(1);
  });

  const foreign = tokenVectors.filter(({ expect_status }) => expect_status === 404);
  it.each(foreign)("$id: $name", async ({ id }) => {
    for (const [method, path, body] of ROUTES) {
      if (["/api-keys", "/event-types", "/transforms"].includes(path)) continue;
      const { authorization = "" } = buildVector(id, Date.now()) ?? {};
      const got = await relays.rsa.call(method, place(path), {
        token: null,
        headers: { authorization },
        ...(body !== undefined && { body }),
      });
      if (mode !== "limits off" && got.status === 429) continue;
      expect([method, path, got.status]).toEqual([method, path, 404]);
    }
  });

  const weak = tokenVectors.filter(({ group, expect_status }) => group === "step-up" && expect_status === 401);
  it.each(weak)("$id: $name", async ({ id }) => {
    const { authorization = "" } = buildVector(id, Date.now()) ?? {};
    const rotate = (path: string): Promise<Answered> =>
      relays.rsa.call("POST", place(path), { token: null, headers: { authorization } });
    const got = await rotate(`${KEY}/webhooks/{sub}/rotate-secret`);
    if (mode !== "limits off" && got.status === 429) return;
    expect([got.status, got.json.code]).toEqual([401, "STEP_UP_REQUIRED"]);
    expect(got.headers["www-authenticate"]).toBe(
      'Bearer error="insufficient_user_authentication", acr_values="mfa", max_age="300"',
    );
    if (mode === "limits off")
      expect(
        (await relays.rsa.call("GET", `${KEY}/webhooks`, { token: null, headers: { authorization } })).status,
      ).toBe(200);
  });

  it("good tokens pass every one of these routes", async () => {
    for (const { id, group } of tokenVectors.filter(({ expect_status }) => expect_status === 200)) {
      const one = group === "step-up" ? `${KEY}/webhooks/{sub}/rotate-secret` : `${KEY}/webhooks/{sub}`;
      for (const [method, path, body] of ROUTES) {
        if (path.endsWith("/stream") || method === "DELETE") continue;
        const { authorization = "" } = buildVector(id, Date.now()) ?? {};
        const got = await relays.rsa.call(method, place(path), {
          token: null,
          headers: { authorization },
          ...(body !== undefined && { body }),
        });
        expect([method, path, got.json?.code]).not.toEqual([method, path, "UNAUTHENTICATED"]);
        expect(got.status).toBeLessThan(500);
        const whole = path === one && method !== "PATCH" && (mode === "limits off" || got.status !== 429);
        if (whole) expect([id, got.status]).toEqual([id, 200]);
      }
    }
  }, 240_000);
});
