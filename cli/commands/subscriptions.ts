/** `relay subscriptions …`: lists, creates and changes the subscriptions of an API key, through the API. */
import { commands as imports } from "./import.ts";
import { commands as tests } from "./subscription-tests.ts";
import {
  asking,
  deleting,
  each,
  keyPath,
  listing,
  PAGE_OPTIONS,
  pageOf,
  type Shaped,
  withQuery,
} from "../support/ask.ts";
import type { ApiAnswer } from "../support/client.ts";
import { type Command, type Given, KEY_OPTIONS, type Options } from "../support/command.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { EX_OK, EX_REFUSED, usage } from "../support/exit.ts";
import { readSecretText } from "../support/inputs.ts";
import { attemptResult, fields, printable, printTable, textOf } from "../support/output.ts";
import { FIELD_OPTIONS, fieldOptions } from "../support/subscription-options.ts";

const SHOWN = {
  ...each("text", "id", "url", "status", "disabledReason?", "description?", "createdAt?", "updatedAt?", "secret?"),
  ...each("text", "transform?", "onFailed?"),
  ...each("map", "headers?", "retry?", "rateLimit?", "filter?"),
  ...each("any", "timeoutMs?", "previousSecretExpiresAt?", "orderBy?"),
  ...each(["text"], "events"),
  ...each("flag", "ordered?"),
  "clientCertificate?": each("text", "subject?", "fingerprint?", "notAfter?"),
  "oauth2?": each("text", "tokenUrl?", "clientId?"),
};
type Shown = Shaped<typeof SHOWN>;

/** The path of the subscription that the command names, or of something below it. */
const hookPath = (given: Given, ...below: readonly string[]): string =>
  keyPath(given, "webhooks", given.args[0], ...below);

const EVENTS: Options = { "--events <names>": "event names, comma-separated; * stands for a part" };
const DESCRIPTION: Options = { "--description <text>": "a note for people" };

const certificateText = ({ subject, fingerprint, notAfter }: NonNullable<Shown["clientCertificate"]>): string =>
  `${subject ?? "?"}, until ${notAfter?.slice(0, 10) ?? "?"}, SHA-256 ${fingerprint ?? "?"}`;

const withReason = (status: string, reason?: string): string =>
  reason === undefined ? status : `${status} (${reason})`;

const ordering = ({ orderBy, onFailed = "skip" }: Shown): string =>
  `${orderBy === undefined ? "all" : `by ${[orderBy].flat().map(textOf).join(".")}`}, a failed one: ${onFailed}`;

/** Prints the subscription that a command is answered with. */
const ANSWER = {
  shape: SHOWN,
  show(one: Shown, io: CliEnvironment) {
    const retry =
      one.retry && Object.entries(one.retry).map(([name, value]) => `${name}=${[value].flat().map(textOf).join(",")}`);
    const lines = {
      id: one.id,
      url: one.url,
      events: one.events.join(", "),
      status: withReason(one.status, one.disabledReason),
      description: one.description,
      headers: one.headers && Object.keys(one.headers).join(", "),
      retry: retry?.join(" "),
      "rate limit": one.rateLimit && `${textOf(one.rateLimit["perSecond"] ?? "?")} attempts a second`,
      "time-out": one.timeoutMs === undefined ? undefined : `${textOf(one.timeoutMs)} ms`,
      certificate: one.clientCertificate && certificateText(one.clientCertificate),
      oauth2: one.oauth2 && `${one.oauth2.clientId ?? "?"} at ${one.oauth2.tokenUrl ?? "?"}`,
      filter: one.filter && JSON.stringify(one.filter),
      transform: one.transform,
      ordered: one.ordered === true ? ordering(one) : undefined,
      created: one.createdAt,
      updated: one.updatedAt,
      secret: one.secret,
      "old secret ends": (one.previousSecretExpiresAt as string | null | undefined) ?? undefined,
    };
    io.print(fields(Object.entries(lines)));
    if (one.secret !== undefined) io.say("relay: the secret is shown this once; keep it where the receiver finds it");
  },
  after(_: Shown, io: CliEnvironment, { warnings = [] }: ApiAnswer) {
    for (const warning of warnings) io.say(`relay: warning: ${printable(warning)}`);
  },
};

const list = listing({
  usage: "subscriptions list",
  about: "list the subscriptions of a key",
  options: KEY_OPTIONS,
  ask: (given) => ({ path: keyPath(given, "webhooks") }),
  shape: SHOWN,
  columns: {
    id: "id",
    status: ({ status, disabledReason }) => withReason(status, disabledReason),
    url: "url",
    events: ({ events }) => events.join(","),
  },
  none: () => "this key has no subscriptions",
});

const shown = asking({
  usage: "subscriptions show <subscription>",
  about: "show one subscription",
  options: KEY_OPTIONS,
  ask: (given) => ({ path: hookPath(given) }),
  ...ANSWER,
});

const create = asking({
  usage: "subscriptions create <url>",
  about: "subscribe a URL to events; prints once the secret that it makes",
  options: {
    ...EVENTS,
    "--secret <from>":
      "a secret that the receiver has already: @file, - for stdin, or env:NAME (a fresh one is made and printed)",
    "--disabled": "nothing is sent until it is enabled",
    ...DESCRIPTION,
    ...FIELD_OPTIONS,
    ...KEY_OPTIONS,
  },
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

const update = asking({
  usage: "subscriptions update <subscription>",
  about: "change a subscription; what is not named stays",
  options: {
    "--to <url>": "the new URL",
    ...EVENTS,
    "--status <status>": "active or disabled",
    ...DESCRIPTION,
    ...FIELD_OPTIONS,
    ...KEY_OPTIONS,
  },
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
    return { method: "PATCH", path: hookPath(given), body };
  },
  ...ANSWER,
});

const remove = deleting({
  usage: "subscriptions delete <subscription>",
  about: "delete a subscription and cancel its deliveries; there is no way back",
  options: KEY_OPTIONS,
  ask: (given) => ({ method: "DELETE", path: hookPath(given) }),
  done: "is deleted",
});

const rotate = asking({
  usage: "subscriptions rotate <subscription>",
  about: "give a subscription a new secret; prints it once",
  options: { "--overlap <seconds>": "how long the old one still signs too (86400; 0 ends it now)", ...KEY_OPTIONS },
  ask(given) {
    const overlapSeconds = given.whole("overlap", 0, 604_800);
    const body = overlapSeconds === undefined ? undefined : { overlapSeconds };
    return { method: "POST", path: hookPath(given, "rotate-secret"), body, right: "stepped-up" };
  },
  ...ANSWER,
});

const SENT = { ...each("number", "statusCode?", "durationMs?"), ...each("text", "error?", "detail?") };
const isGood = ({ statusCode = 0 }: Shaped<typeof SENT>): boolean => statusCode >= 200 && statusCode < 300;

const test = asking({
  usage: "subscriptions test <subscription>",
  about: "send relay:ping, or the example of an event type, now and once, and show the result",
  options: { "--type <type>": "an event type that has an example (relay:ping)", ...KEY_OPTIONS },
  ask(given) {
    const type = given.text("type");
    const body = type === undefined ? undefined : { type };
    return { method: "POST", path: hookPath(given, "test"), body };
  },
  shape: SENT,
  show(sent, io) {
    const { error, statusCode = "?", detail, durationMs = "?" } = sent;
    const result = `${error ?? `status ${statusCode}`}${detail === undefined ? "" : `: ${detail}`}`;
    io.print(printable(`${isGood(sent) ? "delivered" : "failed"}, ${result}, after ${durationMs} ms`));
  },
  after: (sent) => (isGood(sent) ? EX_OK : EX_REFUSED),
});

const deliveries = listing({
  usage: "subscriptions deliveries <subscription>",
  about: "list the deliveries of one subscription, newest event first",
  options: { "--status <status>": "pending, delivered, failed or cancelled", ...PAGE_OPTIONS, ...KEY_OPTIONS },
  examples: ["relay subscriptions deliveries sub_1 --key key_1 --status failed"],
  ask: (given) => ({
    path: withQuery(hookPath(given, "deliveries"), { status: given.text("status"), ...pageOf(given) }),
  }),
  shape: {
    ...each("text", "eventId", "type?", "status", "reason?", "nextAttemptAt?", "updatedAt"),
    // Those of the newest cycle, oldest first.
    ...each([{ "statusCode?": "number", "error?": "text" }], "attempts"),
  },
  columns: {
    event: "eventId",
    type: "type",
    status: ({ status, reason }) => withReason(status, reason),
    attempts: ({ attempts }) => attempts.length,
    "last result": ({ attempts }) => attemptResult(attempts.at(-1)),
    changed: "updatedAt",
    "next attempt": "nextAttemptAt",
  },
  none: () => "no such deliveries",
});

const order = asking({
  usage: "subscriptions order <subscription>",
  about: "show what of an ordered subscription waits for its turn, and what holds it up",
  options: KEY_OPTIONS,
  ask: (given) => ({ path: hookPath(given, "order") }),
  shape: {
    ordered: "flag",
    waiting: "number",
    held: [each("text", "eventId?", "deliveryId?", "since?")],
  },
  show({ ordered, waiting, held }, io) {
    io.say(`relay: ${ordered ? "ordered" : "not ordered"}, ${waiting} waiting`);
    const cells = held.map(({ eventId = "damaged", deliveryId, since }) => [eventId, deliveryId, since]);
    if (cells.length > 0) io.print(printTable(["held by", "delivery", "since"], cells));
  },
});

const skip = asking({
  usage: "subscriptions skip <subscription>",
  about: "skip failed deliveries that hold up those behind them; they stay failed and can be replayed",
  options: { "--event <event>": "only the held delivery of this event", ...KEY_OPTIONS },
  examples: ["relay subscriptions skip sub_1 --key key_1"],
  ask: (given) => ({
    method: "POST",
    path: hookPath(given, "skip"),
    body: { eventId: given.text("event") },
  }),
  shape: { skipped: "number" },
  show: ({ skipped }, io) => io.say(`relay: skipped ${skipped}`),
});

async function readSecret(from: string | undefined, io: CliEnvironment): Promise<string | undefined> {
  const secret = from && (await readSecretText("secret", from, io)).trim();
  if (secret === "") throw usage("--secret names a place that is empty");
  return secret;
}

const MORE = [deliveries, ...tests, ...imports, order, skip];
export const commands: readonly Command[] = [list, shown, create, update, remove, rotate, test, ...MORE];
