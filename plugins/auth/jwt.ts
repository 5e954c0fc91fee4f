/** Authenticates with tokens of your own issuer: JWTs (RFC 7519) in `Authorization: Bearer`. */
import { createSecretKey } from "node:crypto";
import type { Auth } from "../../core/ports/auth.ts";
import type { Plugin, PluginContext } from "../../core/ports/plugin.ts";
import { own } from "../../core/ports/own-plugins.ts";
import { StartError } from "../../core/model/errors.ts";
import { fetchedKeys, fixedKeys, type KeySet, singleKey } from "./jwt/key-set.ts";
import {
  CLOCK_TOLERANCE_MS,
  isShort,
  type JwtOptions,
  jwtProblems,
  MAX_TOKEN_AGE_MS,
  publicKeyOf,
} from "./jwt/options.ts";
import { joseVerify, tokenJudge } from "./token/judge.ts";

export { jwtProblems } from "./jwt/options.ts";
export type { JwtOptions } from "./jwt/options.ts";

/** Tells `relay token` how to make a token that this plug-in accepts, where it has more than public keys. */
interface JwtPlugin extends Plugin<"auth", Auth> {
  readonly options: JwtOptions;
}

/**
 * Accepts exactly the configured algorithms, issuer and audience; `sub`, `iat`, `exp` are required; `api_keys` lists
 * the API keys that the token owns. With `jwksUrl` the relay is not ready until it has fetched the keys.
 */
export function jwt(options: JwtOptions): JwtPlugin {
  const problems = jwtProblems(options);
  return own({
    kind: "auth",
    name: "jwt",
    options,
    problems,
    secrets: problems.length === 0 ? { secret: options.secret } : {},
    async setup(ctx) {
      const { algorithms, issuer, audience, typ } = options;
      const { maxTokenAgeMs = MAX_TOKEN_AGE_MS, clockToleranceMs = CLOCK_TOLERANCE_MS } = options;
      const keyring = openKeyring(options, ctx);
      const judge = tokenJudge({
        rule: {
          algorithms,
          issuer,
          audience: typeof audience === "string" ? [audience] : audience,
          maxTokenAgeMs,
          clockToleranceMs,
          ...(typ === undefined ? {} : { typ }),
        },
        findKey: keyring.find,
        verify: await joseVerify(),
        clock: ctx.clock,
      });
      return { authenticate: (request) => judge(request.header("authorization")), ready: keyring.ready };
    },
  });
}

function openKeyring({ secret, publicKey, keys, jwksUrl }: JwtOptions, ctx: PluginContext): KeySet {
  if (secret !== undefined) {
    const text = typeof secret === "string" ? secret : ctx.secret("secret");
    if (isShort(text)) throw new StartError(78, "jwt(): secret must be at least 32 bytes");
    return singleKey(createSecretKey(Buffer.from(text)));
  }
  if (keys !== undefined) return fixedKeys(keys);
  if (jwksUrl !== undefined) return fetchedKeys(jwksUrl, ctx);
  const key = publicKeyOf(publicKey);
  if (key === undefined) throw new StartError(78, "publicKey must be a public key, as PEM or JWK");
  const kid = typeof publicKey === "object" && typeof publicKey["kid"] === "string" ? publicKey["kid"] : undefined;
  return singleKey(key, kid);
}
