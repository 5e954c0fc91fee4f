// jwt(): the law of the port, every vector that the plug-in itself decides, options, and keys that are fetched.
import { describe, expect, it } from "vitest";
import { isSteppedUp } from "../../core/model/token.ts";
import type { Auth, Principal } from "../../core/ports/auth.ts";
import type { FetchReply, PluginContext, RouteRequest } from "../../core/ports/plugin.ts";
import { jwt, jwtProblems } from "../../plugins/auth/jwt.ts";
import type { JwtOptions } from "../../plugins/auth/jwt.ts";
import { describeAuth } from "../conformance/auth.ts";
import { testClock } from "../support/clock.ts";
import { context } from "../support/context.ts";
import { routeRequest } from "../support/request.ts";
import { AUDIENCE, buildVector, forge, goodClaims, goodToken, HEADER, ISSUER, jwk, pem, secondKey, SECRET, selfSigned, sharedToken } from "../support/tokens.ts"; // prettier-ignore
import { tokenVectors } from "../support/vectors.ts";

const STEP_UP = { acr: [], amr: ["mfa"], maxAgeMs: 300_000 };

const rsa: JwtOptions = { keys: [jwk], algorithms: ["RS256"], issuer: ISSUER, audience: AUDIENCE, typ: "at+jwt" };
const shared: JwtOptions = { secret: SECRET, algorithms: ["HS256"], issuer: ISSUER, audience: AUDIENCE };
const clock = testClock();

const open = async (options: JwtOptions, more: Partial<PluginContext> = {}): Promise<Auth> =>
  jwt(options).setup(context({ clock, ...more }));
const request = (headers: Readonly<Record<string, string>>): RouteRequest => routeRequest("", headers);
const ask = (auth: Auth, token: string) => auth.authenticate(request({ authorization: `Bearer ${token}` }));
const refused = { refused: expect.any(String) };

describe("jwt() with public keys keeps the law", () => {
  const token = ({ sub, keys }: { sub: string; keys: readonly string[] | "*" }) =>
    Promise.resolve(goodToken(clock.now(), { sub, api_keys: keys === "*" ? ["*"] : keys }));
  describeAuth(it, { open: () => open(rsa), token, request });
});

describe("jwt() with a secret keeps the law", () => {
  const token = ({ sub, keys }: { sub: string; keys: readonly string[] | "*" }) =>
    Promise.resolve(sharedToken(clock.now(), { sub, api_keys: keys === "*" ? ["*"] : keys }));
  describeAuth(it, { open: () => open(shared), token, request });
});

describe("the vectors", () => {
  // Only the server sees how large headers may be, sessions, whose key a path names.
  const elsewhere = ["JWT-073", "JWT-096"];
  for (const vector of tokenVectors.filter(({ id }) => !elsewhere.includes(id))) {
    it(`${vector.id}: ${vector.name}`, async () => {
      const auth = await open(vector.server_mode === "HS256" ? shared : rsa);
      const built = buildVector(vector.id, clock.now());
      const headers = { ...built?.headers, ...(built?.authorization && { authorization: built.authorization }) };
      const startedAt = performance.now();
      const found = await auth.authenticate(request(headers));
      expect(performance.now() - startedAt).toBeLessThan(10_000);
      if (vector.group === "step-up" || vector.expect_status === 404) {
        const principal = found as Principal;
        expect(principal.sub).toBeDefined();
        if (vector.expect_status === 401) expect(isSteppedUp(principal, STEP_UP, clock.now())).toBe(false);
        else expect(principal.keys).toEqual(["key_b"]);
      } else if (vector.expect_status === 200) expect(found).toMatchObject({ sub: "user-a", keys: ["key_a"] });
      else expect(found).toEqual(refused);
    });
  }

  it("each has a builder", () => {
    for (const { id } of tokenVectors) expect(() => buildVector(id, clock.now())).not.toThrow();
  });
});

describe("claims", () => {
  const now = (): number => Math.floor(clock.now() / 1_000);

  it.each<[string, object]>([
    ["iat a minute ahead", { iat: now() + 60 }],
    ["iat that is no integer", { iat: now() + 0.5 }],
    ["exp that is no integer", { exp: now() + 60.5 }],
    ["iat as text", { iat: String(now()) }],
    ["a life of more than a day", { exp: now() + 86_401 }],
    ["an empty sub", { sub: "" }],
    ["sub as a number", { sub: 7 }],
    ["nbf as text", { nbf: "1" }],
    ["an empty list of audiences", { aud: [] }],
    ["an audience that only begins like ours", { aud: `${AUDIENCE}.evil.example` }],
    ["iss in a list", { iss: [ISSUER] }],
  ])("%s is refused", async (_, claims) => {
    expect(await ask(await open(rsa), goodToken(clock.now(), claims as Record<string, unknown>))).toEqual(refused);
  });

  it.each<[string, unknown]>([
    ["is missing", undefined],
    ["is text", "key_a"],
    ["holds what is no key id", ["key_a", "../x"]],
    ["holds what is no text", ["key_a", 1]],
    ["mixes a star with keys", ["*", "key_a"]],
    ["is an object", { 0: "*", length: 1 }],
  ])("who owns nothing: api_keys %s", async (_, apiKeys) => {
    const found = await ask(await open(rsa), goodToken(clock.now(), { api_keys: apiKeys }));
    expect(found).toMatchObject({ sub: "user-a", keys: [] });
  });

  it("a token ends while it is remembered", async () => {
    const moving = testClock();
    const auth = await open(rsa, { clock: moving });
    const token = goodToken(moving.now());
    expect(await ask(auth, token)).toHaveProperty("sub");
    await moving.advance(629_000);
    expect(await ask(auth, token)).toHaveProperty("sub");
    await moving.advance(1_000);
    expect(await ask(auth, token)).toEqual(refused);
  });

  it("a key in the header is trusted no more than its token", async () => {
    expect(await ask(await open(rsa), selfSigned(clock.now()))).toEqual(refused);
  });

  it("another type of token is refused, and `typ` is compared as media types are", async () => {
    const auth = await open(rsa);
    const claims = goodClaims(clock.now());
    expect(await ask(auth, forge({ ...HEADER, typ: "JWT" }, claims))).toEqual(refused);
    expect(await ask(auth, forge({ alg: "RS256", kid: "k1" }, claims))).toEqual(refused);
    expect(await ask(auth, forge({ ...HEADER, typ: "application/AT+JWT" }, claims))).toHaveProperty("sub");
  });

  it("a step-up is as fresh as its auth_time, not its iat", () => {
    const at = (authTime: number) => isSteppedUp({ amr: ["mfa"], authTime }, STEP_UP, clock.now());
    expect([at(now()), at(now() - 300), at(now() + 30)]).toEqual([true, true, true]);
    expect([at(now() - 301), at(now() + 31), at(now() + 0.5), at(Number.NaN)]).toEqual([false, false, false, false]);
    const rule = { ...STEP_UP, acr: ["gold"] };
    expect(isSteppedUp({ amr: [], acr: "gold", authTime: now() }, rule, clock.now())).toBe(true);
    expect(isSteppedUp({ amr: [], acr: "golden", authTime: now() }, rule, clock.now())).toBe(false);
  });
});

describe("options", () => {
  it.each<[string, object, string]>([
    ["an empty secret", { ...shared, secret: "" }, "secret"],
    ["a secret that is not set", { ...shared, secret: undefined }, "secret"],
    ["a secret of 31 bytes", { ...shared, secret: "x".repeat(31) }, "secret"],
    ["a secret for RS256", { ...shared, algorithms: ["RS256"] }, "algorithms"],
    ["a public key for HS256", { ...rsa, keys: undefined, publicKey: pem, algorithms: ["HS256"] }, "algorithms"],
    ["two kinds of keys", { ...shared, publicKey: pem }, ""],
    ["no key at all", { algorithms: ["RS256"], issuer: ISSUER, audience: AUDIENCE }, ""],
    ["alg none", { ...shared, algorithms: ["none"] }, "algorithms"],
    ["no algorithms", { ...shared, algorithms: [] }, "algorithms"],
    ["no issuer", { ...shared, issuer: "" }, "issuer"],
    ["no audience", { ...shared, audience: undefined }, "audience"],
    ["a plain-text JWKS URL", { ...rsa, keys: undefined, jwksUrl: "http://id.example.com/jwks" }, "jwksUrl"],
    ["a tolerance of an hour", { ...shared, clockToleranceMs: 3_600_000 }, "clockToleranceMs"],
    ["an unknown option", { ...shared, algorithm: "HS256" }, "algorithm"],
  ])("%s is a problem, and the plug-in does not start", async (_, options, path) => {
    const given = Object.fromEntries(Object.entries(options).filter(([name, value]) => value !== undefined || name === "secret" || name === "audience")) as unknown as JwtOptions; // prettier-ignore
    expect(jwtProblems(given).map((one) => one.path)).toContain(path);
    expect(jwt(given).problems?.length).toBeGreaterThan(0);
    await expect(open(given)).rejects.toMatchObject({ exitCode: 78 });
  });

  it("a good set has none, and nobody's secret is in a message", () => {
    expect(jwtProblems(rsa)).toEqual([]);
    expect(jwtProblems(shared)).toEqual([]);
    expect(JSON.stringify(jwtProblems({ ...shared, secret: "hunter2" }))).not.toContain("hunter2");
  });

  it("a PEM key may be named by any kid", async () => {
    const { keys: _, ...rest } = rsa;
    const auth = await open({ ...rest, publicKey: pem });
    expect(await ask(auth, goodToken(clock.now()))).toHaveProperty("sub");
  });
});

describe("keys that are fetched", () => {
  const { keys: _, ...rest } = rsa;
  const options: JwtOptions = { ...rest, jwksUrl: "https://idp.example.com/jwks.json" };
  const jwks = (...keys: readonly unknown[]): FetchReply => ({
    status: 200,
    headers: {},
    text: JSON.stringify({ keys }),
  });

  function issuer(first: FetchReply | Error) {
    const moving = testClock();
    const state = { answer: first, asked: [] as { url: string; maxBytes: number | undefined }[], clock: moving };
    const fetch: PluginContext["fetch"] = async (url, given) => {
      state.asked.push({ url, maxBytes: given?.maxBytes });
      if (state.answer instanceof Error) throw state.answer;
      return state.answer;
    };
    return { state, open: () => open(options, { clock: moving, fetch }) };
  }

  it("are asked for once, at most 64 KiB of them", async () => {
    const { state, open } = issuer(jwks(jwk));
    const auth = await open();
    for (let i = 0; i < 5; i++) expect(await ask(auth, goodToken(state.clock.now(), { n: i }))).toHaveProperty("sub");
    expect(state.asked).toEqual([{ url: options.jwksUrl, maxBytes: 65_536 }]);
    expect(auth.ready()).toBe(true);
  });

  it("an unknown kid asks again once in 30 s, and is taken once the issuer publishes it", async () => {
    const { state, open } = issuer(jwks(jwk));
    const auth = await open();
    const next = secondKey("k2");
    expect(await ask(auth, goodToken(state.clock.now()))).toHaveProperty("sub");
    await state.clock.advance(30_000);
    state.answer = jwks(jwk, next.jwk);
    const all = await Promise.all(Array.from({ length: 10 }, () => ask(auth, next.token(state.clock.now()))));
    for (const found of all) expect(found).toHaveProperty("sub");
    expect(state.asked).toHaveLength(2);
    for (let i = 0; i < 10; i++) expect(await ask(auth, secondKey("k3").token(state.clock.now()))).toEqual(refused);
    expect(state.asked).toHaveLength(2);
    await state.clock.advance(30_000);
    expect(await ask(auth, secondKey("k3").token(state.clock.now()))).toEqual(refused);
    expect(state.asked).toHaveLength(3);
  });

  it("without keys it is not ready, refuses, and asks again by itself", async () => {
    const { state, open } = issuer(new Error("ECONNREFUSED"));
    const auth = await open();
    expect(await ask(auth, goodToken(state.clock.now()))).toEqual(refused);
    expect(auth.ready()).toBe(false);
    state.answer = jwks(jwk);
    await state.clock.advance(5_000);
    expect(auth.ready()).toBe(false);
    await state.clock.advance(1);
    expect(auth.ready()).toBe(true);
    expect(await ask(auth, goodToken(state.clock.now()))).toHaveProperty("sub");
  });

  it("stay in use while the issuer cannot be reached, and end when it publishes others", async () => {
    const { state, open } = issuer(jwks(jwk));
    const auth = await open();
    expect(await ask(auth, goodToken(state.clock.now()))).toHaveProperty("sub");
    state.answer = new Error("down");
    await state.clock.advance(700_000);
    expect(await ask(auth, goodToken(state.clock.now()))).toHaveProperty("sub");
    state.answer = jwks(secondKey("k2").jwk);
    await state.clock.advance(700_000);
    expect(await ask(auth, goodToken(state.clock.now(), { n: 1 }))).toHaveProperty("sub");
    await state.clock.advance(60_000);
    expect(await ask(auth, goodToken(state.clock.now(), { n: 2 }))).toEqual(refused);
  });

  it.each<[string, FetchReply]>([
    ["an error", { status: 500, headers: {}, text: "{}" }],
    ["no JSON", { status: 200, headers: {}, text: "<html>" }],
    ["no list", { status: 200, headers: {}, text: '{"keys":{}}' }],
    ["private and symmetric keys only", jwks({ kty: "oct", k: "AAAA", kid: "k1" }, { ...jwk, d: "AAAA" })],
    ["encryption keys only", jwks({ ...jwk, use: "enc" })],
    ["junk", jwks(null, 1, "x", {}, { kty: "RSA" })],
  ])("%s instead of keys leaves it without", async (_, answer) => {
    const { state, open } = issuer(answer);
    const auth = await open();
    expect(await ask(auth, goodToken(state.clock.now()))).toEqual(refused);
    expect(auth.ready()).toBe(false);
  });

  it("a kid like a member of every object is no key", async () => {
    const { state, open } = issuer(jwks(jwk));
    const auth = await open();
    for (const kid of ["constructor", "__proto__", "toString", ""])
      expect(await ask(auth, forge({ ...HEADER, kid }, goodClaims(state.clock.now())))).toEqual(refused);
  });
});
