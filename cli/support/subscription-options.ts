/** The optional fields of a subscription as command-line options: headers, retry, rate limit, time-out, credentials. */
import type { CliEnvironment } from "./environment.ts";
import type { Given, Options } from "./command.ts";
import { usage } from "./exit.ts";
import { faultIn } from "../../core/lib/json-fault.ts";
import { jsonIn, readOptionFile } from "./inputs.ts";

/** The word that clears a field. */
const NONE = "none";

export const FIELD_OPTIONS: Options = {
  "--header <header>": 'a request header, "Name: value", or @file with one a line; may be repeated',
  "--retry <policy>": "such as attempts=3,firstDelayMs=1000,factor=2,maxDelayMs=60000, or some of it",
  "--retry-delays <waits>": "the waits themselves, such as 5s,5m,30m,2h: 1 to 4 of them, three days at most",
  "--rate-limit <n>": "most attempts a second",
  "--filter <json>": "conditions on type and data: JSON or @file",
  "--transform <name>": "a transform of the relay's config, which makes the bodies",
  "--ordered <yes or no>": "one delivery after another, in the order of acceptance: yes or no",
  "--order-by <path>": "wait only for deliveries with the same value there, such as data.account",
  "--on-failed <what>": "what a failed one does to those behind it: skip or hold",
  "--timeout-ms <ms>": "how long one attempt may take, 1000 to 30000",
  "--client-cert <file>": "PEM file of the client certificate that is shown to the receiver",
  "--client-key <file>": "PEM file of its private key",
  "--oauth2 <json>": "tokenUrl, clientId, clientSecret, scope and audience as JSON, or @file with it",
};

/** Returns the fields that these options set. `none` clears a field; a header's name alone keeps its stored value in an update. */
export function fieldOptions(given: Given, { cwd }: CliEnvironment): Readonly<Record<string, unknown>> {
  const ordered = given.choice("ordered", ["yes", "no"]);
  return {
    headers: headersOf(given.all("header"), cwd),
    retry: policyOf(given.list("retry"), given.list("retry-delays")),
    rateLimit: clearable(given.text("rate-limit"), (text) => ({ perSecond: numeric("rate-limit", text) })),
    timeoutMs: clearable(given.text("timeout-ms"), (text) => numeric("timeout-ms", text)),
    clientCertificate: certificateOf(given.text("client-cert"), given.text("client-key"), cwd),
    oauth2: clearable(given.text("oauth2"), (text) => jsonOf("oauth2", text, cwd)),
    filter: clearable(given.text("filter"), (text) => jsonOf("filter", text, cwd)),
    transform: clearable(given.text("transform"), (name) => name),
    ordered: ordered && ordered === "yes",
    orderBy: clearable(given.text("order-by"), (text) => (text.startsWith("[") ? jsonOf("order-by", text, cwd) : text)),
    onFailed: clearable(given.text("on-failed"), (text) => text),
  };
}

const clearable = <T>(text: string | undefined, read: (text: string) => T): T | null | undefined =>
  text === undefined ? undefined : text === NONE ? null : read(text);

function numeric(option: string, text: string): number {
  if (/^\d+(?:\.\d+)?$/.test(text)) return Number(text);
  throw usage(`--${option} must be a number, or none`);
}

function certificateOf(
  cert: string | undefined,
  key: string | undefined,
  cwd: string,
): { readonly cert: string; readonly key: string } | null | undefined {
  if (cert === NONE && key === undefined) return null;
  if (cert === undefined && key === undefined) return undefined;
  if (cert === undefined || key === undefined) throw usage("--client-cert and --client-key are given together");
  return { cert: readOptionFile("client-cert", cert, { cwd }), key: readOptionFile("client-key", key, { cwd }) };
}

function jsonOf(option: string, text: string, cwd: string): unknown {
  const json = text.startsWith("@") ? readOptionFile(option, text.slice(1), { cwd }) : text;
  const value = jsonIn(json);
  if (value === undefined) throw usage(`--${option} must be JSON, or @file with it, or none (see ${faultIn(json)})`);
  return value;
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function waitMs(text: string): number {
  const [, amount = "", unit = ""] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text) ?? [];
  if (unit === "") throw usage(`--retry-delays: ${text} is no wait, such as 90s, 5m, 2h or 1d`);
  return Math.round(Number(amount) * (UNITS[unit] as number));
}

function policyOf(
  policy: readonly string[] | undefined,
  delays: readonly string[] | undefined,
): Readonly<Record<string, unknown>> | null | undefined {
  if (delays === undefined) return retryOf(policy);
  if (policy !== undefined) throw usage("give --retry or --retry-delays, not both");
  return { delaysMs: delays.map(waitMs) };
}

const POLICY = ["attempts", "firstDelayMs", "factor", "maxDelayMs"];

function retryOf(items: readonly string[] | undefined): Readonly<Record<string, number>> | null | undefined {
  if (items === undefined) return undefined;
  if (items.length === 1 && items[0] === NONE) return null;
  const pairs = items.map((item): [string, number] => {
    const [name = "", text = ""] = item.split("=");
    if (!POLICY.includes(name)) throw usage(`--retry: ${item} is none of ${POLICY.join("=, ")}=`);
    return [name, numeric("retry", text)];
  });
  return Object.fromEntries(pairs);
}

/** Returns the headers of `--header`, `undefined` where none is given, `null` for `none`. */
export function headersOf(given: readonly string[], cwd: string): Record<string, string | null> | null | undefined {
  if (given.length === 0) return undefined;
  if (given.length === 1 && given[0] === NONE) return null;
  const lines = given.flatMap((text) => (text.startsWith("@") ? linesOf(text.slice(1), cwd) : [text]));
  return Object.fromEntries(
    lines.map((line): [string, string | null] => {
      const [, name = "", value] = /^([^:]*)(?::(.*))?$/s.exec(line) ?? [];
      if (name.trim() === "") throw usage('--header must be "Name: value"');
      return [name.trim(), value === undefined ? null : value.trim()];
    }),
  );
}

const linesOf = (file: string, cwd: string): readonly string[] =>
  readOptionFile("header", file, { cwd })
    .split(/\r?\n/)
    .filter((line) => line.trim() !== "");
