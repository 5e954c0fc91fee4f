/** Checks publish tokens: compared as hashes, in the same time whatever is presented. */
import { hash, timingSafeEqual } from "node:crypto";
import { bearerToken, guessable } from "../../../core/model/token.ts";
import { isKeyId } from "../../../core/model/names.ts";
import { Problem, type FieldError } from "../../../core/model/problem.ts";
import { isSecretOption, type SecretOption } from "../../../core/model/secret-option.ts";

/** A token for every key, or for some. It may be `secretFrom({ env: "PUBLISH_TOKEN" })`. */
export type TokenOption = SecretOption | { readonly token: SecretOption; readonly keys?: readonly string[] };

export interface PublishToken {
  readonly digest: Buffer;
  /** Keys it may publish on; `undefined`: every key. */
  readonly keys?: readonly string[];
  /** Identifies it in storage and in the limits; cannot be turned back into the token. */
  readonly scope: string;
}

/** Visible ASCII: nothing else can be sent as a Bearer token. */
const TOKEN = /^[\x21-\x7e]+$/;
const LONGEST_HEADER = 8_192;

export const publishToken = (token: string, keys?: readonly string[]): PublishToken => ({
  digest: hash("sha256", token, "buffer"),
  keys,
  scope: hash("sha256", `publish token\n${token}`, "hex").slice(0, 32),
});

/** Returns what is wrong with the option `tokens`, every problem at once. A config file may contain anything. */
export function tokenProblems(tokens: unknown): readonly FieldError[] {
  if (tokens === undefined) return [];
  if (!Array.isArray(tokens) || tokens.length === 0)
    return [{ path: "tokens", message: "must be a list with at least one token" }];
  const found: FieldError[] = [];
  const seen = new Set<string>();
  for (const [i, option] of (tokens as readonly unknown[]).entries()) {
    const path = `tokens[${i}]`;
    const { token, keys, ...rest } = (
      typeof option === "object" && option !== null && !isSecretOption(option) ? option : { token: option }
    ) as Readonly<Record<string, unknown>>;
    for (const name of Object.keys(rest)) found.push({ path: `${path}.${name}`, message: "is not an option" });
    if (typeof token === "string" ? !TOKEN.test(token) : !isSecretOption(token)) {
      found.push({ path, message: "must be a token: not empty, visible ASCII without spaces" });
    } else if (typeof token === "string" && seen.has(token)) {
      found.push({ path, message: "is in the list twice" });
    } else if (typeof token === "string") seen.add(token);
    if (keys === undefined) continue;
    if (!Array.isArray(keys) || keys.length === 0 || !keys.every((key) => typeof key === "string" && isKeyId(key))) {
      found.push({ path: `${path}.keys`, message: "must be a list of key ids" });
    }
  }
  return found;
}

/** Each token with the path of its secret. @param tokens without problems */
const listed = (tokens: readonly TokenOption[]) =>
  tokens.map((option, i): { path: string; token: SecretOption; keys?: readonly string[] } =>
    isSecretOption(option) ? { path: `tokens[${i}]`, token: option } : { path: `tokens[${i}].token`, ...option },
  );

/** Returns which of the tokens that the config holds can be guessed. @param tokens without problems */
export const shortTokens = (tokens: readonly TokenOption[] = []): readonly FieldError[] =>
  listed(tokens).flatMap(({ token }, i) => {
    const message = typeof token === "string" ? guessable(token) : undefined;
    return message === undefined ? [] : [{ path: `tokens[${i}]`, message }];
  });

/** Returns the tokens by their paths, so that the relay masks them wherever people read. @param tokens without problems */
export const tokenSecrets = (tokens: readonly TokenOption[] = []): Readonly<Record<string, SecretOption>> =>
  Object.fromEntries(listed(tokens).map(({ path, token }) => [path, token]));

/** Reads each token where it is named. @param secret `PluginContext.secret` */
export const readTokens = (tokens: readonly TokenOption[], secret: (path: string) => string) =>
  listed(tokens).map(({ path, token, keys }) => ({ token: typeof token === "string" ? token : secret(path), keys }));

/**
 * Returns the token that an `Authorization` header presents.
 * @throws Problem UNAUTHENTICATED
 */
export function presentedToken(header: string | undefined, tokens: readonly PublishToken[]): PublishToken {
  const given = header === undefined || header.length > LONGEST_HEADER ? undefined : bearerToken(header);
  if (given === undefined || given.includes(" ")) throw refused('Bearer realm="relay"');
  const digest = hash("sha256", given, "buffer");
  let found: PublishToken | undefined;
  // Compares all of them, every time: the time taken does not reveal which one it was.
  for (const token of tokens) if (timingSafeEqual(token.digest, digest)) found = token;
  if (found === undefined) throw refused('Bearer realm="relay", error="invalid_token"');
  return found;
}

const refused = (challenge: string): Problem =>
  new Problem("UNAUTHENTICATED", "Send a publish token: Authorization: Bearer <token>.", {
    headers: { "WWW-Authenticate": challenge },
  });
