import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RouteRequest } from "relaybox";
import { describeAuth, testContext, type TestContext } from "relaybox/conformance";
import { myAuth, issue } from "../src/index.ts";

const SECRET = "a secret of the tests";
const plugin = myAuth({ secret: SECRET });

const request = (headers: Readonly<Record<string, string>>): RouteRequest => ({
  method: "GET",
  path: "/",
  params: {},
  query: new URLSearchParams(),
  header: (name) => headers[name],
  body: async () => new Uint8Array(),
  address: "127.0.0.1",
  requestId: "req_1",
  signal: new AbortController().signal,
});

let ctx: TestContext;
beforeAll(async () => void (ctx = await testContext(plugin)));
afterAll(() => ctx[Symbol.asyncDispose]());

describe("the law of the auth port", () => {
  describeAuth(it, {
    open: async () => plugin.setup(ctx),
    token: async ({ sub, keys }) =>
      issue({ sub, keys: keys === "*" ? "*" : [...keys], expiresAt: ctx.clock.now() + 60_000 }, SECRET),
    request,
  });
});

describe("my-auth", () => {
  it("refuses a token that has ended, or was signed with another secret", async () => {
    const auth = await plugin.setup(ctx);
    const ask = (token: string) => auth.authenticate(request({ authorization: `Bearer ${token}` }));
    const given = { sub: "a", keys: "*" as const, expiresAt: ctx.clock.now() };
    expect(await ask(issue(given, SECRET))).toEqual({ refused: "it has expired" });
    expect(await ask(issue({ ...given, expiresAt: given.expiresAt + 1 }, "another"))).toHaveProperty("refused");
  });

  it("names what is wrong with its options", () => {
    expect(myAuth({ secret: "" }).problems?.map(({ path }) => path)).toEqual(["secret"]);
  });
});
