/** The package of an auth: tokens that carry their claims, with a signature under a shared secret. */
export const AUTH = {
  about:
    "It takes tokens of the form `v1.<claims>.<signature>`, signed with a shared secret: replace that by your own check.",
  use: `
import { defineRelay, secretFrom } from "relaybox";
import { FACTORY } from "NAME";

export default defineRelay({ auth: FACTORY({ secret: secretFrom({ env: "VARIABLE_SECRET" }) }) });
`,
  source: `
/** Takes tokens that carry their claims, signed with a shared secret. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { isSecretOption } from "relaybox";
import type { Auth, Plugin, SecretOption } from "relaybox";
import { z } from "zod";

export interface Options {
  /** At least 16 characters. */
  readonly secret: SecretOption;
}

const schema = z.strictObject({ secret: z.custom<SecretOption>(isSecretOption, "must be text, or secretFrom(…)") });

/** Every problem of the options, with its path. */
function problemsOf(options: unknown): { path: string; message: string }[] {
  const { error } = schema.safeParse(options);
  return (error?.issues ?? []).map(({ path, message }) => ({ path: path.join("."), message }));
}

const claims = z.object({
  sub: z.string().min(1),
  keys: z.union([z.literal("*"), z.array(z.string())]),
  /** Epoch ms. */
  expiresAt: z.number(),
});
export type Claims = z.infer<typeof claims>;

const sign = (text: string, secret: string): string => createHmac("sha256", secret).update(text).digest("base64url");

/** Makes a token. */
export function issue(given: Claims, secret: string): string {
  const text = Buffer.from(JSON.stringify(given)).toString("base64url");
  return \`v1.\${text}.\${sign(text, secret)}\`;
}

export function FACTORY(options: Options): Plugin<"auth", Auth> {
  const problems = problemsOf(options);
  return {
    kind: "auth",
    name: "NAME",
    problems,
    secrets: problems.length === 0 ? { secret: options.secret } : {},
    setup({ secret, clock }) {
      const shared = secret("secret");
      return {
        ready: () => true,
        async authenticate(request) {
          const [, text = "", signature = ""] = /^Bearer +v1\\.([\\w-]{1,4096})\\.([\\w-]{43})$/i.exec(request.header("authorization") ?? "") ?? [];
          // The texts are compared: several of them decode to the same bytes.
          const wanted = sign(text, shared);
          if (signature.length !== wanted.length || !timingSafeEqual(Buffer.from(signature), Buffer.from(wanted)))
            return { refused: "the signature is wrong" };
          const { data } = claims.safeParse(JSON.parse(Buffer.from(text, "base64url").toString("utf8")));
          if (data === undefined) return { refused: "claims are missing" };
          if (data.expiresAt <= clock.now()) return { refused: "it has expired" };
          return { sub: data.sub, keys: data.keys, amr: [], expiresAt: data.expiresAt };
        },
      };
    },
  };
}
`,
  test: `
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RouteRequest } from "relaybox";
import { describeAuth, testContext, type TestContext } from "relaybox/conformance";
import { FACTORY, issue } from "../src/index.ts";

const SECRET = "a secret of the tests";
const plugin = FACTORY({ secret: SECRET });

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

describe("NAME", () => {
  it("refuses a token that has ended, or was signed with another secret", async () => {
    const auth = await plugin.setup(ctx);
    const ask = (token: string) => auth.authenticate(request({ authorization: \`Bearer \${token}\` }));
    const given = { sub: "a", keys: "*" as const, expiresAt: ctx.clock.now() };
    expect(await ask(issue(given, SECRET))).toEqual({ refused: "it has expired" });
    expect(await ask(issue({ ...given, expiresAt: given.expiresAt + 1 }, "another"))).toHaveProperty("refused");
  });

  it("names what is wrong with its options", () => {
    expect(FACTORY({ secret: "" }).problems?.map(({ path }) => path)).toEqual(["secret"]);
  });
});
`,
} as const;
