// A second factor counts as fresh (RFC 9470) to the second.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isSteppedUp, stepUpChallenge } from "../../core/model/token.ts";
import { jwt } from "../../plugins/auth/jwt.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { AUDIENCE, goodToken, ISSUER, jwk } from "../support/tokens.ts";

const NOW = 1_800_000_000_000;
const now = NOW / 1_000;
const RULE = { acr: [], amr: ["mfa"], maxAgeMs: 300_000 };
const ACR = { acr: ["urn:strong", "urn:stronger"], amr: ["mfa"], maxAgeMs: 60_000 };

describe("a second factor", () => {
  it.each([
    ["just shown", RULE, { amr: ["mfa"], authTime: now }, true],
    ["among others", RULE, { amr: ["pwd", "otp", "mfa"], authTime: now }, true],
    ["300 s ago", RULE, { amr: ["mfa"], authTime: now - 300 }, true],
    ["301 s ago", RULE, { amr: ["mfa"], authTime: now - 301 }, false],
    ["30 s ahead of our clock", RULE, { amr: ["mfa"], authTime: now + 30 }, true],
    ["31 s ahead of our clock", RULE, { amr: ["mfa"], authTime: now + 31 }, false],
    ["at no known time", RULE, { amr: ["mfa"] }, false],
    ["at half a second", RULE, { amr: ["mfa"], authTime: now - 0.5 }, false],
    ["at no number", RULE, { amr: ["mfa"], authTime: Number.NaN }, false],
    ["spelt otherwise", RULE, { amr: ["MFA", "mfa ", "m fa"], authTime: now }, false],
    ["of another kind", RULE, { amr: ["otp", "hwk", "pwd"], authTime: now }, false],
    ["not named at all", RULE, { amr: [], authTime: now }, false],
    ["as a class that nobody asked for", RULE, { amr: [], acr: "urn:strong", authTime: now }, false],
    ["as a class", ACR, { amr: [], acr: "urn:stronger", authTime: now }, true],
    ["as two classes in one", ACR, { amr: [], acr: "urn:strong urn:stronger", authTime: now }, false],
    ["as a class, too long ago", ACR, { amr: [], acr: "urn:strong", authTime: now - 61 }, false],
    ["as a method where a class would do too", ACR, { amr: ["mfa"], acr: "urn:weak", authTime: now - 60 }, true],
  ] as const)("%s", (_, rule, principal, good) => {
    expect(isSteppedUp(principal, rule, NOW)).toBe(good);
  });

  it("is asked for by what would be enough", () => {
    expect(stepUpChallenge(RULE)).toBe(
      'Bearer error="insufficient_user_authentication", acr_values="mfa", max_age="300"',
    );
    expect(stepUpChallenge(ACR)).toContain('acr_values="urn:strong urn:stronger", max_age="60"');
  });
});

describe("a rotation with tokens of an issuer", () => {
  let relay: TestRelay;
  let target: string;
  beforeAll(async () => {
    const auth = jwt({ keys: [jwk], algorithms: ["RS256"], issuer: ISSUER, audience: AUDIENCE });
    relay = await startRelay({ auth, stepUp: { acr: ["urn:strong"], amr: ["hwk"], maxAgeMs: 120_000 } });
    const body = { url: "https://93.184.215.14/", events: ["*"] };
    const made = await relay.call("POST", "/api-keys/key_a/webhooks", { token: goodToken(Date.now()), body });
    target = `/api-keys/key_a/webhooks/${made.json.data.id}/rotate-secret`;
  });
  afterAll(() => relay[Symbol.asyncDispose]());
  const seconds = (ago: number): number => Math.floor(Date.now() / 1_000) - ago;

  it.each([
    [200, "the method", () => ({ amr: ["hwk"], auth_time: seconds(1) })],
    [200, "the class", () => ({ acr: "urn:strong", auth_time: seconds(100) })],
    [401, "another method", () => ({ amr: ["mfa"], auth_time: seconds(1) })],
    [401, "the class as a list", () => ({ acr: ["urn:strong"], auth_time: seconds(1) })],
    [401, "the method as text", () => ({ amr: "hwk", auth_time: seconds(1) })],
    [401, "a fresh token, an old factor", () => ({ amr: ["hwk"], auth_time: seconds(125) })],
    [401, "a time in milliseconds", () => ({ amr: ["hwk"], auth_time: Date.now() })],
    [401, "a time that is negative", () => ({ amr: ["hwk"], auth_time: -1 })],
    [401, "a time that is a fraction", () => ({ amr: ["hwk"], auth_time: seconds(1) + 0.5 })],
    [401, "a time that is missing", () => ({ amr: ["hwk"] })],
    [401, "a time that is null", () => ({ amr: ["hwk"], auth_time: null })],
  ] as const)("%i with %s", async (status, _, claims) => {
    const got = await relay.call("POST", target, { token: goodToken(Date.now(), claims()) });
    expect(got.status).toBe(status);
    if (status === 401) {
      expect(got.json.code).toBe("STEP_UP_REQUIRED");
      expect(got.headers["www-authenticate"]).toBe(
        'Bearer error="insufficient_user_authentication", acr_values="urn:strong", max_age="120"',
      );
    }
  });

  it("that is refused changes nothing: the secret is the same", async () => {
    const before = await relay.call("GET", "/api-keys/key_a/webhooks", { token: goodToken(Date.now()) });
    await relay.call("POST", target, { token: goodToken(Date.now()) });
    const after = await relay.call("GET", "/api-keys/key_a/webhooks", { token: goodToken(Date.now()) });
    expect(after.json.data).toEqual(before.json.data);
  });
});
