// Keys of an issuer on a private address, over TLS, through the guard; without them the relay is not ready.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { jwt } from "../../plugins/auth/jwt.ts";
import { startReceiver } from "../support/receiver.ts";
import type { Receiver, Step } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";
import { AUDIENCE, goodToken, ISSUER, jwk } from "../support/tokens.ts";

let issuer: Receiver;
let step: Step;
const keys: Step = {
  do: "reply",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ keys: [jwk] }),
};

beforeAll(async () => {
  issuer = await startReceiver({ script: () => step });
});
afterAll(() => issuer[Symbol.asyncDispose]());

const auth = () =>
  jwt({ jwksUrl: issuer.url("/jwks.json"), algorithms: ["RS256"], issuer: ISSUER, audience: AUDIENCE, typ: "at+jwt" });
const LIST = "/api-keys/key_a/webhooks";

describe("an issuer on a private address", () => {
  it("that is named in guard.allow is asked once, and its tokens are taken", async () => {
    step = keys;
    await using relay = await startRelay({ auth: auth() });
    const before = issuer.requests.length;
    for (let i = 0; i < 3; i++)
      expect((await relay.call("GET", LIST, { token: goodToken(Date.now(), { n: i }) })).status).toBe(200);
    expect((await relay.call("GET", "/readyz", { token: null })).status).toBe(200);
    expect(issuer.requests.slice(before).map(({ path }) => path)).toEqual(["/jwks.json"]);
  });

  it.each<[string, Step]>([
    ["answers with an error", 500],
    [
      "answers with more than 64 KiB",
      { do: "reply", body: `{"keys":[${JSON.stringify(jwk)}],"pad":"${"x".repeat(70_000)}"}` },
    ],
    ["redirects", { do: "reply", status: 302, headers: { location: "https://127.0.0.1:1/" } }],
    ["resets the connection", { do: "reset" }],
  ])("that %s leaves the relay without keys: not ready, and every token refused", async (_, does) => {
    step = does;
    await using relay = await startRelay({ auth: auth() });
    expect((await relay.call("GET", LIST, { token: goodToken(Date.now()) })).status).toBe(401);
    expect((await relay.call("GET", "/readyz", { token: null })).status).toBe(503);
    expect((await relay.call("GET", "/healthz", { token: null })).status).toBe(200);
  });

  it("that guard.allow does not name is never called", async () => {
    step = keys;
    const before = issuer.requests.length;
    await using relay = await startRelay({ auth: auth(), guard: { allow: [] } });
    expect((await relay.call("GET", LIST, { token: goodToken(Date.now()) })).status).toBe(401);
    expect((await relay.call("GET", "/readyz", { token: null })).status).toBe(503);
    expect(issuer.requests.length).toBe(before);
  });
});
