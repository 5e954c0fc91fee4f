// Tokens and accounts over real sockets: a token that is too long, addresses that fail, and the accounts' whole way.
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { jwt } from "../../plugins/auth/jwt.ts";
import { totpCode } from "../../plugins/auth/accounts/codes.ts";
import { startRelay } from "../support/relay.ts";
import type { TestRelay } from "../support/relay.ts";
import { AUDIENCE, buildVector, goodToken, ISSUER, jwk } from "../support/tokens.ts";

const rsa = jwt({ keys: [jwk], algorithms: ["RS256"], issuer: ISSUER, audience: AUDIENCE, typ: "at+jwt" });

describe("a token of 20 kB", () => {
  it("JWT-096: is refused with 431 before it is all there", async () => {
    await using relay = await startRelay({ auth: rsa });
    const { authorization } = buildVector("JWT-096", Date.now()) ?? {};
    const socket = connect({ host: "127.0.0.1", port: Number(new URL(relay.url).port) });
    // The server closes while we still write; what it said is there all the same.
    socket.on("error", () => {});
    socket.write(`GET /api-keys/key_a/webhooks HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n\r\n`);
    const [first] = (await once(socket, "data")) as [Buffer];
    expect(first.toString("latin1")).toMatch(/^HTTP\/1\.1 431 /);
    socket.destroy();
  });
});

describe("failed authentication of one address", () => {
  it("is answered 429 after 300 a minute, and a good token still passes", async () => {
    await using relay = await startRelay({ auth: rsa, limits: {}, abuse: {} });
    const statuses = new Map<number, number>();
    for (let i = 0; i < 310; i++) {
      const { status, headers } = await relay.call("GET", "/api-keys/key_a/webhooks", { token: "not.a.token" });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 429) expect(Number(headers["retry-after"])).toBeGreaterThan(0);
    }
    expect([...statuses]).toEqual([[401, 300], [429, 10]]); // prettier-ignore
    const good = await relay.call("GET", "/api-keys/key_a/webhooks", { token: goodToken(Date.now()) });
    expect([good.status, good.headers["x-ratelimit-remaining"]]).toEqual([200, "29"]);
  });
});

const PASSWORD = "correct horse battery";

describe("accounts over a real socket", () => {
  let relay: TestRelay;
  beforeAll(async () => {
    relay = await startRelay();
  });
  afterAll(() => relay[Symbol.asyncDispose]());

  it("JWT-073: no answer with a session may be cached, the published key signs it, and after a logout it is dead", async () => {
    const code = (await readFile(join(relay.dataDir, "setup-code"), "utf8")).trim();
    const account = { username: "alice", password: PASSWORD };
    await relay.call("POST", "/auth/setup", { token: null, body: { code, ...account } });
    const got = await relay.call("POST", "/auth/login", { token: null, body: account });
    expect([got.status, got.headers["cache-control"]]).toEqual([200, "no-store"]);
    const token = got.json.data.token as string;
    const { kid } = JSON.parse(Buffer.from(token.split(".")[0] ?? "", "base64url").toString()) as { kid: string };
    const { json } = await relay.call("GET", "/.well-known/jwks.json", { token: null });
    expect(json.keys).toMatchObject([{ kid, crv: "Ed25519" }]);
    const list = () => relay.call("GET", "/api-keys/key_a/webhooks", { token });
    expect((await list()).status).toBe(200);
    const left = await relay.call("POST", "/auth/logout", { token });
    expect([left.status, left.text]).toEqual([204, ""]);
    const dead = await list();
    expect([dead.status, dead.json.code]).toEqual([401, "UNAUTHENTICATED"]);
  });

  it.each([
    ["OPTIONS", "/auth/login", 405],
    ["GET", "/auth/login", 405],
    ["POST", "/auth/login/", 404],
    ["POST", "/auth/Login", 404],
    ["DELETE", "/auth/users/a%2Fb", 404],
  ])("%s %s is %i", async (method, path, status) => {
    expect((await relay.call(method, path, { token: await relay.token({ mfa: true }) })).status).toBe(status);
  });
});

describe("codes cannot be found by trying, with every limit switched off", () => {
  it("ten wrong ones suspend a step-up, and a few at once are all that is tried", async () => {
    await using relay = await startRelay();
    const { token, code } = await enrolled(relay);
    const tries = await Promise.all(
      Array.from({ length: 60 }, () => relay.call("POST", "/auth/step-up", { token, body: { code: "no" } })),
    );
    const wrong = tries.filter(({ status }) => status === 401).length;
    expect(wrong).toBeLessThan(13);
    expect(new Set(tries.map(({ status }) => status))).toEqual(new Set([401, 429]));
    for (let i = wrong; i < 10; i++) await relay.call("POST", "/auth/step-up", { token, body: { code: "no" } });
    const right = await relay.call("POST", "/auth/step-up", { token, body: { code: code(1) } });
    expect([right.status, right.json.code]).toEqual([429, "ABUSE_SUSPEND"]);
    expect(Number(right.headers["retry-after"])).toBeGreaterThan(200);
    // There, and nowhere else.
    expect((await relay.call("GET", "/api-keys/any/webhooks", { token })).status).toBe(200);
  });

  it("wrong codes behind the right password suspend the login of that account", async () => {
    await using relay = await startRelay({ abuse: { failures: 3 } });
    const { code } = await enrolled(relay);
    const attempt = (more: object) =>
      relay.call("POST", "/auth/login", { token: null, body: { username: "alice", password: PASSWORD, ...more } });
    for (let i = 0; i < 3; i++) expect((await attempt({ code: "000000" })).status).toBe(401);
    const right = await attempt({ code: code(1) });
    expect([right.status, right.json.code]).toEqual([429, "ABUSE_SUSPEND"]);
    // Without the password nobody learns of it.
    expect((await attempt({ password: "wrong horse battery", code: "000000" })).status).toBe(401);
  });

  /** The first account, with a second factor. */
  async function enrolled(relay: TestRelay) {
    const setup = (await readFile(join(relay.dataDir, "setup-code"), "utf8")).trim();
    const body = { code: setup, username: "alice", password: PASSWORD };
    const made = await relay.call("POST", "/auth/setup", { token: null, body });
    const first = made.json.data.token as string;
    const begun = await relay.call("POST", "/auth/totp", { token: first, body: { password: PASSWORD } });
    const secret = new URL(begun.json.data.uri as string).searchParams.get("secret") as string;
    const code = (ahead = 0): string => totpCode(secret, Math.floor(Date.now() / 30_000) + ahead);
    const on = await relay.call("PUT", "/auth/totp", { token: first, body: { code: code() } });
    return { token: on.json.data.token as string, code };
  }
});

describe("logins are limited", () => {
  it("by address: three in five seconds, whoever they are for", async () => {
    // Three passwords take their time to be hashed: windows run by the monotonic clock, which stands still here.
    const clock = { ...systemClock(), monotonic: () => 1_000 };
    await using relay = await startRelay({ limits: {}, abuse: {} }, undefined, clock);
    const attempt = (username: string) =>
      relay.call("POST", "/auth/login", { token: null, body: { username, password: "wrong horse battery" } });
    const answers = [await attempt("a"), await attempt("b"), await attempt("c"), await attempt("d")];
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 429]);
    expect(answers[0]?.headers["x-ratelimit-limit"]).toBe("10");
    expect(answers[3]?.json).toMatchObject({ code: "BURST_EXCEEDED", retryAfter: 5 });
  });
});
