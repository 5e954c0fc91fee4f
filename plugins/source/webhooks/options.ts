/** The options of `webhooks()`, judged at once: a config may contain anything. */
import { isEventName, isKeyId } from "../../../core/model/names.ts";
import { HEADER_NAME } from "../../../core/model/header-names.ts";
import type { FieldError } from "../../../core/model/problem.ts";
import { isSecretOption, type SecretOption } from "../../../core/model/secret-option.ts";
import { guessable } from "../../../core/model/token.ts";
import { createTrust } from "../../../core/ports/networks.ts";
import {
  anything,
  choice,
  flag,
  inside,
  must,
  optional,
  type Rule,
  text,
  unknownOptions,
  whole,
} from "../../../core/ports/options.ts";
import { partsOf } from "./arrived.ts";
import { type HmacOptions, type Provider, SECRET_FIELD, type Secrets, type Verification } from "./scheme.ts";
import { keyOf, publicKeyOf } from "./verify.ts";

/** An object with these fields, and no others. */
const exactly =
  (rules: Readonly<Record<string, Rule>>): Rule =>
  (value, path) => [
    ...unknownOptions(value, Object.keys(rules)).map(({ path: name, message }) =>
      name === "" ? { path, message: "must be an object" } : { path: `${path}.${name}`, message },
    ),
    ...(typeof value === "object" && value !== null ? inside(rules)(value, path) : []),
  ];

/** The rule for one of them, or for each of a list that is not empty. */
const oneOrMore =
  (rule: Rule): Rule =>
  (value, path) => {
    if (!Array.isArray(value)) return rule(value, path);
    if (value.length === 0) return [{ path, message: "must not be an empty list" }];
    return value.flatMap((one, i) => rule(one, `${path}[${i}]`));
  };

const holesOf = (value: string): readonly string[] =>
  partsOf(value).flatMap((part) => (typeof part === "string" ? [] : [part.name === "" ? part.of : `${part.of}.`]));

/** A text with these holes. @param whole judges a text without any */
const holes = (known: readonly string[], plain: (value: string) => boolean = () => true): Rule =>
  must(`must be text, with the holes ${known.map((one) => `{${one.replace(/\.$/, ".…")}}`).join(", ")}`, (value) => {
    if (typeof value !== "string" || value === "") return false;
    try {
      const found = holesOf(value);
      return found.every((one) => known.includes(one)) && (found.length > 0 || plain(value));
    } catch {
      return false;
    }
  });

const PLACES = ["header.", "path.", "body."];
const SIGNED = ["body", "timestamp", "header.", "url", "form"];
const header = text("the name of a header", HEADER_NAME);
const isType = (value: string): boolean => isEventName(value) && !value.startsWith("relay:");

const PROVIDER: Readonly<Record<keyof Provider, Rule>> = {
  name: optional(text("1 to 64 letters, digits, - or _", /^[\w-]{1,64}$/)),
  id: optional(oneOrMore(holes(PLACES, () => false))),
  type: optional(oneOrMore(holes(PLACES, isType))),
  challenge: optional(exactly({ of: holes(PLACES), is: text("text"), answer: holes(PLACES) })),
  timeoutMs: optional(whole(100, 60_000)),
};

const field = exactly({ field: text("what stands before the time") });

const SIGNATURE = {
  ...PROVIDER,
  header,
  encoding: optional(choice("hex", "base64")),
  signed: optional(holes(SIGNED)),
  prefix: optional(text("text")),
  separator: optional(text("text")),
  timestamp: optional((value, path) => (typeof value === "string" ? header : field)(value, path)),
  toleranceMs: optional(whole(1_000, 86_400_000)),
  url: optional(must("must be the address that the provider knows", (value) => URL.canParse(String(value)))),
  bodyHash: optional(text("the name of a query parameter")),
};

/** Judges a secret that the config holds itself; one that is read from elsewhere is judged at the start. */
const secrets = (is: (secret: string) => boolean, what: string): Rule =>
  oneOrMore(
    must(`must be ${what}, or secretFrom(…)`, (one) => isSecretOption(one) && (typeof one !== "string" || is(one))),
  );
const secret = secrets(() => true, "text");

const networks = must("must be a list of addresses and CIDRs", (value) => {
  try {
    return Array.isArray(value) && value.length > 0 && (createTrust(value as string[]), true);
  } catch {
    return false;
  }
});

const SCHEMES: Readonly<Record<Verification["by"], (value: Readonly<Record<string, unknown>>) => Rule>> = {
  hmac: ({ secretEncoding: encoding, signed }) =>
    exactly({
      ...SIGNATURE,
      by: anything,
      algorithm: optional(choice("sha1", "sha256", "sha384", "sha512")),
      secretEncoding: optional(choice("utf8", "hex", "base64", "whsec")),
      secret: secrets(
        (one) => keyOf(one, encoding as HmacOptions["secretEncoding"]) !== undefined,
        `a secret written in ${String(encoding ?? "utf8")}`,
      ),
      ...(String(signed).includes("{url}") && { url: text("the address that the provider knows", /^https?:\/\/./) }),
    }),
  ed25519: () =>
    exactly({
      ...SIGNATURE,
      by: anything,
      publicKey: secrets((one) => publicKeyOf(one) !== undefined, "an Ed25519 public key in hex, base64 or PEM"),
    }),
  basic: () =>
    exactly({ ...PROVIDER, by: anything, username: text("a name without a colon", /^[^:]+$/), password: secret }),
  apiKey: ({ header: name, query }) =>
    exactly({
      ...PROVIDER,
      by: anything,
      header: query === undefined ? header : must("has no meaning beside query", () => name === undefined),
      query: optional(text("the name of a query parameter")),
      prefix: optional(text("text")),
      key: secret,
    }),
  addresses: () => exactly({ ...PROVIDER, by: anything, addresses: networks }),
};

const verification: Rule = (value, path) => {
  const { by } = (value ?? {}) as { readonly by?: unknown };
  if (typeof by !== "string" || !Object.hasOwn(SCHEMES, by))
    return [{ path, message: "must say how webhooks are verified, such as stripe({ secret }) or hmac({ … })" }];
  return SCHEMES[by as Verification["by"]](value as Readonly<Record<string, unknown>>)(value, path);
};

const SEGMENT = String.raw`(?:[A-Za-z0-9._~-]+|\{\w+\})`;
const PATH = new RegExp(String.raw`^/[A-Za-z0-9._~-]+(?:/${SEGMENT})*$`);

const ENDPOINT: Readonly<Record<string, Rule>> = {
  path: text("a path such as /in/stripe, whose later parts may be {name}", PATH),
  keyId: holes(PLACES, isKeyId),
  verify: oneOrMore(verification),
  id: PROVIDER.id,
  type: PROVIDER.type,
  headers: optional(
    must(
      "must be a list of names of headers",
      (value) => Array.isArray(value) && value.every((one) => typeof one === "string" && HEADER_NAME.test(one)),
    ),
  ),
  timeoutMs: PROVIDER.timeoutMs,
  cloudEvents: optional((value, path) => (Array.isArray(value) ? oneOrMore(text("an origin")) : flag)(value, path)),
};

/** Returns what is wrong, every problem at once. */
export function endpointProblems(given: unknown): readonly FieldError[] {
  if (!Array.isArray(given) || given.length === 0)
    return [{ path: "", message: "must be given a list: webhooks([{ path, keyId, verify }])" }];
  return given.flatMap((one: unknown, i) => {
    const found = exactly(ENDPOINT)(one, `[${i}]`);
    if (found.length > 0) return found;
    const { type, verify, cloudEvents } = one as { type?: unknown; verify: Verification; cloudEvents?: unknown };
    const named = type !== undefined || cloudEvents === true || Array.isArray(cloudEvents);
    return named || [verify].flat().some((scheme) => scheme.type !== undefined)
      ? []
      : [{ path: `[${i}].type`, message: "is missing: this verification does not say where a type stands" }];
  });
}

interface SecretAt {
  readonly path: string;
  readonly option: SecretOption;
  readonly scheme: Verification;
}

/** Returns the secrets of an endpoint by their paths. What is no secret is left out: a problem names it. */
export function secretsAt(verify: unknown, at: string): readonly SecretAt[] {
  const schemes = [verify].flat() as readonly (Verification | undefined)[];
  return schemes.flatMap((scheme, i) => {
    const name = SECRET_FIELD[scheme?.by as Verification["by"]] as string | undefined;
    if (scheme === undefined || name === undefined) return [];
    const given = (scheme as unknown as Readonly<Record<string, Secrets | undefined>>)[name];
    const path = `${at}.verify${Array.isArray(verify) ? `[${i}]` : ""}.${name}`;
    const all = (Array.isArray(given) ? given : [given]) as readonly SecretOption[];
    return all.flatMap((option, j) =>
      isSecretOption(option) ? [{ path: Array.isArray(given) ? `${path}[${j}]` : path, option, scheme }] : [],
    );
  });
}

/** Returns which of the secrets that the config holds itself can be guessed. */
export const shortSecrets = (all: readonly SecretAt[]): readonly FieldError[] =>
  all.flatMap(({ path, option, scheme }) => {
    const message = typeof option === "string" && scheme.by !== "ed25519" ? guessable(option) : undefined;
    return message === undefined ? [] : [{ path, message }];
  });
