/** `relay subscriptions …`: lists, creates and changes the subscriptions of an API key, through the API. */
import type { CliEnvironment } from "../support/environment.ts";
import { commands as deliveries } from "./subscription-deliveries.ts";
import { commands as filters } from "./filters.ts";
import { commands as transforms } from "./transforms.ts";
import { commands as imports } from "./import.ts";
import { commands as orders } from "./order.ts";
import { keyPath } from "../support/api-path.ts";
import type { ApiAnswer } from "../support/client.ts";
import { type Command, KEY_OPTIONS, type Option } from "../support/command.ts";
import { EX_OK, EX_REFUSED, usage } from "../support/exit.ts";
import { fields, printable } from "../support/output.ts";
import { asking, deleting, listing } from "../support/plain.ts";
import { readSecretText } from "../support/named-files.ts";
import { FIELD_OPTIONS, fieldOptions } from "../support/subscription-options.ts";
import type { Shape } from "../support/response-shape.ts";

interface Shown {
  readonly id: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly status: string;
  readonly disabledReason?: string;
  readonly description?: string;
  readonly createdAt?: string;
  readonly updatedAt?: string;
  readonly secret?: string;
  readonly previousSecretExpiresAt?: string | null;
  readonly headers?: Readonly<Record<string, null>>;
  readonly retry?: Readonly<Record<string, number>>;
  readonly rateLimit?: { readonly perSecond?: number };
  readonly timeoutMs?: number;
  readonly clientCertificate?: {
    readonly subject?: string;
    readonly fingerprint?: string;
    readonly notAfter?: string;
  };
  readonly oauth2?: { readonly tokenUrl?: string; readonly clientId?: string };
  readonly filter?: Readonly<Record<string, unknown>>;
  readonly transform?: string;
  readonly ordered?: boolean;
  readonly orderBy?: string | readonly string[];
  readonly onFailed?: string;
}

interface Sent {
  readonly statusCode?: number;
  readonly error?: string;
  readonly detail?: string;
  readonly durationMs?: number;
}
const SHOWN: Shape<Shown> = { id: "text", url: "text", events: "list", status: "text" };

const EVENTS: Option = {
  flags: "--events <names>",
  about: "event names, comma-separated; * stands for a part",
  many: true,
};
const SECRET: Option = {
  flags: "--secret <from>",
  about: "a secret that the receiver has already: @file, - for stdin, or env:NAME (a fresh one is made and printed)",
};
const DISABLED: Option = { flags: "--disabled", about: "nothing is sent until it is enabled" };
const DESCRIPTION: Option = { flags: "--description <text>", about: "a note for people" };

const certificateText = ({ subject, fingerprint, notAfter }: NonNullable<Shown["clientCertificate"]>): string =>
  `${subject ?? "?"}, until ${notAfter?.slice(0, 10) ?? "?"}, SHA-256 ${fingerprint ?? "?"}`;

const status = (one: Shown): string =>
  one.disabledReason === undefined ? one.status : `${one.status} (${one.disabledReason})`;

const ordering = ({ orderBy, onFailed = "skip" }: Shown): string =>
  `${orderBy === undefined ? "all" : `by ${[orderBy].flat().join(".")}`}, a failed one: ${onFailed}`;

/** How the commands that answer with a subscription print it. */
const ANSWER = {
  shape: SHOWN,
  show(one: Shown, io: CliEnvironment) {
    io.print(
      fields([
        ["id", one.id],
        ["url", one.url],
        ["events", one.events.join(", ")],
        ["status", status(one)],
        ["description", one.description],
        ["headers", one.headers && Object.keys(one.headers).join(", ")],
        [
          "retry",
          one.retry &&
            Object.entries(one.retry)
              .map(([name, value]) => `${name}=${value}`)
              .join(" "),
        ],
        ["rate limit", one.rateLimit && `${one.rateLimit.perSecond ?? "?"} attempts a second`],
        ["time-out", one.timeoutMs === undefined ? undefined : `${one.timeoutMs} ms`],
        ["certificate", one.clientCertificate && certificateText(one.clientCertificate)],
        ["oauth2", one.oauth2 && `${one.oauth2.clientId ?? "?"} at ${one.oauth2.tokenUrl ?? "?"}`],
        ["filter", one.filter && JSON.stringify(one.filter)],
        ["transform", one.transform],
        ["ordered", one.ordered === true ? ordering(one) : undefined],
        ["created", one.createdAt],
        ["updated", one.updatedAt],
        ["secret", one.secret],
        ["old secret ends", one.previousSecretExpiresAt ?? undefined],
      ]),
    );
    if (one.secret !== undefined) io.say("relay: the secret is shown this once; keep it where the receiver finds it");
  },
  after(_: Shown, io: CliEnvironment, { warnings = [] }: ApiAnswer) {
    for (const warning of warnings) io.say(`relay: warning: ${printable(warning)}`);
  },
};

const list = listing<Shown>({
  usage: "subscriptions list",
  about: "list the subscriptions of a key",
  options: KEY_OPTIONS,
  ask: (given) => ({ path: keyPath(given, "webhooks") }),
  shape: SHOWN,
  columns: { id: "id", status: (one) => status(one), url: "url", events: ({ events }) => events.join(",") },
  none: () => "this key has no subscriptions",
});

const shown = asking<Shown>({
  usage: "subscriptions show <subscription>",
  about: "show one subscription",
  options: KEY_OPTIONS,
  ask: (given) => ({ path: keyPath(given, "webhooks", given.args[0]) }),
  ...ANSWER,
});

const create = asking<Shown>({
  usage: "subscriptions create <url>",
  about: "subscribe a URL to events; prints once the secret that it makes",
  options: [EVENTS, SECRET, DISABLED, DESCRIPTION, ...FIELD_OPTIONS, ...KEY_OPTIONS],
  examples: [
    "relay subscriptions create https://example.com/hook --key key_1 --events deposit:paid",
    'relay subscriptions create https://example.com/hook --key key_1 --events "*" --retry attempts=3 --rate-limit 10',
    "relay subscriptions create https://example.com/hook --key key_1 --events deposit:paid --secret @secret",
  ],
  async ask(given, io) {
    const events = given.list("events");
    if (events === undefined) throw usage("--events is missing");
    const description = given.text("description");
    const secret = await readSecret(given.text("secret"), io);
    const status = given.flag("disabled") ? "disabled" : undefined;
    const body = { url: given.args[0], events, secret, status, description, ...fieldOptions(given, io) };
    return { method: "POST", path: keyPath(given, "webhooks"), body };
  },
  ...ANSWER,
});

const update = asking<Shown>({
  usage: "subscriptions update <subscription>",
  about: "change a subscription; what is not named stays",
  options: [
    { flags: "--to <url>", about: "the new URL" },
    EVENTS,
    { flags: "--status <status>", about: "active or disabled" },
    DESCRIPTION,
    ...FIELD_OPTIONS,
    ...KEY_OPTIONS,
  ],
  examples: [
    "relay subscriptions update sub_1 --key key_1 --status active",
    "relay subscriptions update sub_1 --key key_1 --header 'X-Tenant: 7' --retry none",
  ],
  ask(given, io) {
    const body = {
      url: given.text("to"),
      events: given.list("events"),
      status: given.text("status"),
      description: given.text("description"),
      ...fieldOptions(given, io),
    };
    if (Object.values(body).every((value) => value === undefined)) {
      throw usage("nothing to change: give what is to change, such as --to, --events, --status or --filter");
    }
    return { method: "PATCH", path: keyPath(given, "webhooks", given.args[0]), body };
  },
  ...ANSWER,
});

const remove = deleting({
  usage: "subscriptions delete <subscription>",
  about: "delete a subscription and cancel its deliveries; there is no way back",
  options: KEY_OPTIONS,
  ask: (given) => ({ method: "DELETE", path: keyPath(given, "webhooks", given.args[0]) }),
  done: "is deleted",
});

const rotate = asking<Shown>({
  usage: "subscriptions rotate <subscription>",
  about: "give a subscription a new secret; prints it once",
  options: [
    { flags: "--overlap <seconds>", about: "how long the old one still signs too (86400; 0 ends it now)" },
    ...KEY_OPTIONS,
  ],
  ask(given) {
    const overlapSeconds = given.whole("overlap", 0, 604_800);
    const path = keyPath(given, "webhooks", given.args[0], "rotate-secret");
    const body = overlapSeconds === undefined ? undefined : { overlapSeconds };
    return { method: "POST", path, body, right: "stepped-up" };
  },
  ...ANSWER,
});

const test = asking<Sent>({
  usage: "subscriptions test <subscription>",
  about: "send relay:ping, or the example of an event type, now and once, and show the result",
  options: [{ flags: "--type <type>", about: "an event type that has an example (relay:ping)" }, ...KEY_OPTIONS],
  ask(given) {
    const type = given.text("type");
    const body = type === undefined ? undefined : { type };
    return { method: "POST", path: keyPath(given, "webhooks", given.args[0], "test"), body };
  },
  shape: {},
  show(sent, io) {
    const came = sent.error ?? `status ${sent.statusCode ?? "?"}`;
    const detail = sent.detail === undefined ? "" : `: ${sent.detail}`;
    io.print(
      printable(`${isGood(sent) ? "delivered" : "failed"}, ${came}${detail}, after ${sent.durationMs ?? "?"} ms`),
    );
  },
  after: (sent) => (isGood(sent) ? EX_OK : EX_REFUSED),
});
const isGood = ({ statusCode = 0 }: Sent): boolean => statusCode >= 200 && statusCode < 300;

async function readSecret(from: string | undefined, io: CliEnvironment): Promise<string | undefined> {
  const secret = from && (await readSecretText("secret", from, io)).trim();
  if (secret === "") throw usage("--secret names a place that is empty");
  return secret;
}

const MORE = [...deliveries, ...filters, ...transforms, ...imports, ...orders];
export const commands: readonly Command[] = [list, shown, create, update, remove, rotate, test, ...MORE];
