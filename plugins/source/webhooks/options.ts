/** The options of `webhooks()`, judged at once: a config may contain anything. */
import { HEADER_NAME } from "../../../core/model/header-names.ts";
import { isEventName, isKeyId } from "../../../core/model/names.ts";
import type { FieldError } from "../../../core/model/problem.ts";
import { isSecretOption, type SecretOption } from "../../../core/model/secret-option.ts";
import { createTrust } from "../../../core/ports/networks.ts";
import * as rules from "../../../core/ports/options.ts";
import { partsOf } from "./arrived.ts";
import type { Provider, Secrets, Verification } from "./scheme.ts";

const { anything, choice, flag, inside, must, optional, text, unknownOptions, whole } = rules;
type Rule = rules.Rule;
type Fields = Readonly<Record<string, Rule>>;

/** An object with these fields, and no others. */
const exactly =
  (fields: Fields): Rule =>
  (value, path) => [
    ...unknownOptions(value, Object.keys(fields)).map(({ path: name, message }) =>
      name === "" ? { path, message: "must be an object" } : { path: `${path}.${name}`, message },
    ),
    ...(typeof value === "object" && value !== null ? inside(fields)(value, path) : []),
  ];

/** The rule for one of them, or for each of a list that is not empty. */
const oneOrMore =
  (rule: Rule): Rule =>
  (value, path) => {
    if (!Array.isArray(value)) return rule(value, path);
    if (value.length === 0) return [{ path, message: "must not be an empty list" }];
    return value.flatMap((one, i) => rule(one, `${path}[${i}]`));
  };

/** True when the check is, and does not throw. */
function passes(check: () => boolean): boolean {
  try {
    return check();
  } catch {
    return false;
  }
}

/** A text with holes of these kinds. @param plain judges a text without any */
const holes = (known: readonly string[], plain: (value: string) => boolean = () => true): Rule =>
  must(`must be text, with the holes ${known.map((one) => `{${one.replace(/\.$/, ".…")}}`).join(", ")}`, (value) =>
    passes(() => {
      if (typeof value !== "string" || value === "") return false;
      const found = partsOf(value).filter((part) => typeof part !== "string");
      const right = found.every(({ of, name }) => known.includes(name === "" ? of : `${of}.`));
      return right && (found.length > 0 || plain(value));
    }),
  );

const PLACES = ["header.", "path.", "body."];
const header = text("the name of a header", HEADER_NAME);
const someText = text("text");
const address = text("the address that the provider knows", /^https?:\/\/./);

const PROVIDER: Readonly<Record<keyof Provider, Rule>> = {
  name: optional(text("1 to 64 letters, digits, - or _", /^[\w-]{1,64}$/)),
  id: optional(oneOrMore(holes(PLACES, () => false))),
  type: optional(oneOrMore(holes(PLACES, (value) => isEventName(value) && !value.startsWith("relay:")))),
  challenge: optional(exactly({ of: holes(PLACES), is: someText, answer: holes(PLACES) })),
  timeoutMs: optional(whole(100, 60_000)),
};

const SIGNED = holes(["body", "timestamp", "header.", "url", "form"]);
const UNSIGNED = must("must hold {body}, or {form}: else anybody may change the body", () => false);
const SIGNATURE: Fields = {
  header,
  encoding: optional(choice("hex", "base64")),
  signed: optional((value, path) => (/\{(?:body|form)\}/.test(String(value)) ? SIGNED : UNSIGNED)(value, path)),
  prefix: optional(someText),
  separator: optional(someText),
  timestamp: optional((value, path) =>
    (typeof value === "string" ? header : exactly({ field: someText }))(value, path),
  ),
  toleranceMs: optional(whole(1_000, 86_400_000)),
  url: optional(address),
  bodyHash: optional(text("the name of a query parameter")),
};

const secrets = oneOrMore(rules.secret);
const networks = must("must be a list of addresses and CIDRs", (value) =>
  passes(() => Array.isArray(value) && value.length > 0 && createTrust(value as string[]) !== undefined),
);

/** The fields of each kind, which may depend on what is given. */
const SCHEMES: Readonly<Record<Verification["by"], (given: Readonly<Record<string, unknown>>) => Fields>> = {
  hmac: ({ signed }) => ({
    ...SIGNATURE,
    algorithm: optional(choice("sha1", "sha256", "sha384", "sha512")),
    secretEncoding: optional(choice("utf8", "hex", "base64", "whsec")),
    secret: secrets,
    ...(String(signed).includes("{url}") && { url: address }),
  }),
  ed25519: () => ({ ...SIGNATURE, publicKey: secrets }),
  basic: () => ({ username: text("a name without a colon", /^[^:]+$/), password: secrets }),
  apiKey: ({ header: name, query }) => ({
    header: query === undefined ? header : must("has no meaning beside query", () => name === undefined),
    query: optional(text("the name of a query parameter")),
    prefix: optional(someText),
    key: secrets,
  }),
  addresses: () => ({ addresses: networks }),
};

const verification: Rule = (value, path) => {
  const given = (value ?? {}) as Readonly<Record<string, unknown>>;
  const fields = Object.hasOwn(SCHEMES, String(given["by"])) ? SCHEMES[given["by"] as Verification["by"]] : undefined;
  if (fields === undefined) return [{ path, message: "must be a preset, such as stripe({ secret }), or hmac({ … })" }];
  return exactly({ by: anything, ...PROVIDER, ...fields(given) })(value, path);
};

const PATH = /^\/[\w.~-]+(?:\/(?:[\w.~-]+|\{\w+\}))*$/;
const ENDPOINT: Fields = {
  path: text("a path such as /in/stripe, whose later parts may be {name}", PATH),
  keyId: holes(PLACES, isKeyId),
  verify: oneOrMore(verification),
  id: PROVIDER.id,
  type: PROVIDER.type,
  headers: optional(rules.texts("a list of names of headers", HEADER_NAME)),
  timeoutMs: PROVIDER.timeoutMs,
  cloudEvents: optional((value, path) => (Array.isArray(value) ? oneOrMore(text("an origin")) : flag)(value, path)),
};

/** Returns what is wrong, every problem at once. */
export function endpointProblems(given: unknown): readonly FieldError[] {
  if (!Array.isArray(given) || given.length === 0)
    return [{ path: "", message: "must be given a list: webhooks([{ path, keyId, verify }])" }];
  return given.flatMap((one: unknown, i) => exactly(ENDPOINT)(one, `[${i}]`));
}

/** The field of each kind that holds its secrets. */
const SECRETS = { hmac: "secret", ed25519: "publicKey", basic: "password", apiKey: "key", addresses: "" };

interface SecretAt {
  readonly path: string;
  readonly option: SecretOption;
  readonly scheme: Verification;
}

/** Returns the secrets of an endpoint by their paths. What is no secret is left out: a problem names it. */
export function secretsAt(verify: unknown, at: string): readonly SecretAt[] {
  const place = (list: unknown, i: number): string => (Array.isArray(list) ? `[${i}]` : "");
  return ([verify].flat() as readonly (Verification | undefined)[]).flatMap((scheme, i) => {
    const name = SECRETS[scheme?.by as Verification["by"]] ?? "";
    const given = (scheme as Readonly<Record<string, unknown>> | undefined)?.[name] as Secrets | undefined;
    const path = `${at}.verify${place(verify, i)}.${name}`;
    const all = [given].flat().map((option, j) => ({ path: `${path}${place(given, j)}`, option, scheme }) as SecretAt);
    return all.filter(({ option }) => isSecretOption(option));
  });
}
