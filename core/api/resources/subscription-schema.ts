/** Schemas of subscriptions: what a request may say of one, and what an answer says. */
import { z } from "zod";
import { HEADER_NAME, isReservedHeader, MAX_HEADER_NAME } from "../../model/header-names.ts";
import { isEventPattern } from "../../model/names.ts";
import { LONGEST_SECRET, secretProblem } from "../../model/signing-secret.ts";
import { LEAST_DELAY_MS, LONGEST_SCHEDULE_MS, MOST_DELAYS, scheduleProblem } from "../../model/subscription.ts";
import { TRANSFORM_NAME } from "../../model/transform.ts";
import { note, number, time, whole } from "./fields.ts";
import { filter, path, shownFilter } from "./filter-schema.ts";

/** For the documentation: `isEventPattern` decides. */
const EVENT_PATTERN = "^(?:[A-Za-z0-9_-]+|\\*)(?:[:.](?:[A-Za-z0-9_-]+|\\*))*$";
const HEADER_VALUE = /^[\x20-\x7e]*$/;
const MAX_HEADERS = 20;

const eventName = z
  .string()
  .max(128)
  .refine(isEventPattern, "must be letters, digits, _ and - in parts separated by : or ., with * for a whole part")
  .meta({
    examples: ["deposit:paid"],
    pattern: EVENT_PATTERN,
    description: "An event name; `*` stands for one part, a last `*` for one or more.",
  });
const events = z
  .array(eventName)
  .min(1, "choose at least one event")
  .max(100)
  .meta({ description: "Names of the events wanted; repeats are folded." });

/** @param schemes URL schemes that a transport serves */
const urlOf = (schemes: readonly string[]): z.ZodType<string> =>
  z
    .string()
    .max(2_048)
    .refine((text) => schemes.some((scheme) => text.slice(0, scheme.length + 1).toLowerCase() === `${scheme}:`), {
      error: ({ input }) => wrongScheme(String(input), schemes),
    })
    .meta({ examples: ["https://hooks.example.com/relay"], pattern: `^(?:${schemes.join("|")}):` });

/** Someone who tries a receiver on this machine first learns here how it is called. */
function wrongScheme(given: string, schemes: readonly string[]): string {
  const text = `must start with ${schemes.map((scheme) => `${scheme}://`).join(" or ")}`;
  const url = URL.parse(given);
  if (url?.protocol !== "http:") return text;
  if (!/^(?:localhost|127\.[\d.]+|\[::1\])$/.test(url.hostname)) return `${text}: nothing is sent unencrypted`;
  const port = url.port === "" ? 443 : url.port;
  const allow = `guard: { allow: ["${url.hostname}:${port}"] }`;
  return `${text}: nothing is sent unencrypted. On this machine, relay listen receives over TLS, and ${allow} in relay.config.ts lets the relay call it`;
}

const headers = z
  .record(z.string(), z.string().max(1_024).regex(HEADER_VALUE, "must be visible ASCII").nullable())
  .superRefine((given, ctx) => {
    const names = Object.keys(given);
    const say = (path: string[], message: string): void => ctx.addIssue({ code: "custom", path, message });
    if (names.length > MAX_HEADERS) say([], `may be at most ${MAX_HEADERS}`);
    const seen = new Set<string>();
    for (const name of names) {
      const lower = name.toLowerCase();
      if (name.length > MAX_HEADER_NAME || !HEADER_NAME.test(name)) say([name], "is not a header name");
      else if (isReservedHeader(name)) say([name], "is the relay's own");
      else if (seen.has(lower)) say([name], "is given more than once");
      seen.add(lower);
    }
  })
  .meta({
    description:
      "Static request headers. Values are encrypted at rest and answered as null. Refused are the headers of the relay's own and of the connection.",
    maxProperties: MAX_HEADERS,
    propertyNames: { type: "string", maxLength: MAX_HEADER_NAME, pattern: HEADER_NAME.source },
  });
/** Nothing is stored yet at a create: there is no value that `null` could keep. */
const newHeaders = headers.refine(
  (given) => Object.values(given).every((value) => value !== null),
  "need a value each",
);

const pem = (what: string) => z.string().min(1, what).max(16_384).meta({ description: what });
const clientCertificate = z
  .strictObject({
    cert: pem("PEM: the certificate first, those that issued it after it."),
    key: pem("PEM: its private key, without a passphrase."),
  })
  .meta({
    description:
      "Shown to the receiver when it asks for a client certificate (mutual TLS). The key is encrypted at rest and never answered.",
  });

const visible = (most: number) => z.string().min(1).max(most).regex(HEADER_VALUE, "must be visible ASCII");
const oauth2Fields = {
  tokenUrl: z
    .string()
    .max(2_048)
    .refine((text) => /^https:/i.test(text), "must start with https://")
    .meta({ pattern: "^https:", examples: ["https://login.example.com/oauth2/token"] }),
  clientId: visible(256),
  scope: visible(1_024).optional(),
  audience: visible(1_024).optional(),
};
const OAUTH2 =
  "OAuth 2 client credentials (RFC 6749, 4.4): each delivery carries an access token of this server as `Authorization: Bearer`. The client secret is encrypted at rest and answered as null.";
const newOauth2 = note(z.strictObject({ ...oauth2Fields, clientSecret: visible(1_024) }), OAUTH2);
const oauth2 = note(
  z.strictObject({ ...oauth2Fields, clientSecret: visible(1_024).nullable() }),
  `${OAUTH2} In an update null keeps it, where the token URL keeps its origin.`,
);

const retry = z
  .strictObject({
    attempts: whole(1, 5).optional(),
    firstDelayMs: whole(10, 3_600_000).optional(),
    factor: number(1, 10).optional(),
    maxDelayMs: whole(10, 86_400_000).optional(),
    delaysMs: note(
      z.array(whole(LEAST_DELAY_MS, LONGEST_SCHEDULE_MS)).min(1).max(MOST_DELAYS).optional(),
      "The wait after each attempt but the last, instead of all other fields; together at most three days.",
      [5_000, 300_000, 1_800_000, 7_200_000],
    ),
  })
  .superRefine((given, ctx) => {
    const message = scheduleProblem(given);
    if (message !== undefined) ctx.addIssue({ code: "custom", path: ["delaysMs"], message });
  })
  .meta({
    id: "RetryPolicy",
    not: { required: ["delaysMs"], minProperties: 2 },
    description:
      "When a failed attempt is made again: a list of waits, or a backoff, of which what is left out is as the relay's config has it.",
  });

const FOUR = "(?:[A-Za-z0-9+/]{4})";
const [TWO, THREE] = ["[A-Za-z0-9+/]{2}==", "[A-Za-z0-9+/]{3}="];
/** 24 to 64 bytes. For the documentation: `secretProblem` decides. */
const SECRET_FORM = `^whsec_(?:${FOUR}{8,20}(?:${TWO}|${THREE})?|${FOUR}{21}(?:${TWO})?)$`;

/** A signing secret of one's own. A value that is refused is never repeated. */
const ownSecret = z
  .string()
  .superRefine((text, ctx) => {
    const message = secretProblem(text);
    if (message !== undefined) ctx.addIssue({ code: "custom", message });
  })
  .meta({
    maxLength: LONGEST_SECRET,
    pattern: SECRET_FORM,
    description:
      "A signing secret of one's own, such as one that the receiver holds already: `whsec_` and base64 of 24 to 64 bytes. The relay makes one when it is left out. A secret that is given is not answered.",
  });

const perSecond = z.strictObject({ perSecond: number(0.01, 10_000) });
const transform = z.string().regex(TRANSFORM_NAME, "must be the name of a transform");
const options = {
  description: z.string().max(1_000).nullable().optional(),
  rateLimit: note(
    perSecond.nullable().optional(),
    "Most attempts a second. Each node keeps it by itself: with two nodes it may be twice as many.",
  ),
  timeoutMs: whole(1_000, 30_000).nullable().optional(),
  retry: retry.nullable().optional(),
  clientCertificate: clientCertificate.nullable().optional(),
  filter: filter.nullable().optional(),
  transform: note(
    transform.nullable().optional(),
    "A transform of the relay's config, which makes the body of each delivery.",
  ),
  ordered: note(
    z.boolean().nullable().optional(),
    "Deliveries go one after another, in the order in which their events were accepted. `false` and `null` clear it, with the two below.",
  ),
  orderBy: note(
    path.nullable().optional(),
    "The path of a value in the event, such as `data.account`: only deliveries of equal values wait for each other.",
  ),
  onFailed: note(
    z.enum(["skip", "hold"]).nullable().optional(),
    "What a failed delivery does: with `skip` the next one goes, with `hold` those behind it wait until it is replayed or skipped. `skip` when left out.",
  ),
};
const status = z.enum(["active", "disabled"]);

export const createBody = (schemes: readonly string[]) =>
  z
    .strictObject({
      url: urlOf(schemes),
      events,
      ...options,
      headers: newHeaders.nullable().optional(),
      oauth2: newOauth2.nullable().optional(),
      secret: ownSecret.nullable().optional(),
      status: note(status.optional(), "`disabled`: nothing is sent until it is enabled. `active` when left out."),
    })
    .meta({ id: "SubscriptionCreate" });

export const updateBody = (schemes: readonly string[]) =>
  z
    .strictObject({
      url: urlOf(schemes).optional(),
      events: events.optional(),
      status: status.optional(),
      ...options,
      headers: headers.nullable().optional(),
      oauth2: oauth2.nullable().optional(),
    })
    .meta({ id: "SubscriptionUpdate" });

export const rotateBody = z
  .strictObject({
    overlapSeconds: note(
      whole(0, 604_800).default(86_400),
      "How long the old secret goes on signing beside the new one; 0 ends it now.",
    ),
  })
  .meta({ id: "RotateSecret" });

const NAME = "What people call the subscription: its description, or else the host of its URL.";
export const subscriptionName = note(z.string().optional(), NAME);

const named = { id: z.string(), url: z.string(), events: z.array(z.string()) };
const shown = {
  description: z.string().optional(),
  rateLimit: z.strictObject({ perSecond: z.number() }).optional(),
  timeoutMs: z.int().optional(),
  retry: z
    .union([
      z
        .strictObject({ attempts: z.int(), firstDelayMs: z.int(), factor: z.number(), maxDelayMs: z.int() })
        .meta({ id: "RetryBackoff" }),
      z.strictObject({ attempts: z.int(), delaysMs: z.array(z.int()) }).meta({ id: "RetrySchedule" }),
    ])
    .optional(),
  headers: z.record(z.string(), z.null()).optional(),
  clientCertificate: z
    .strictObject({
      subject: z.string(),
      fingerprint: note(z.string(), "SHA-256, in hex with colons."),
      notAfter: time,
    })
    .optional(),
  oauth2: z
    .strictObject({
      tokenUrl: z.string(),
      clientId: z.string(),
      clientSecret: note(z.string().nullable(), "Always null: it is not answered."),
      scope: z.string().optional(),
      audience: z.string().optional(),
    })
    .optional(),
  filter: shownFilter.optional(),
  transform: z.string().optional(),
  ordered: z.literal(true).optional(),
  orderBy: z.union([z.string(), z.array(z.string())]).optional(),
  onFailed: z.enum(["skip", "hold"]).optional(),
  disabledReason: note(
    z.enum(["endpoint_gone", "receiver_disabled", "endpoint_failing", "record_damaged"]).optional(),
    "`record_damaged`: its stored record is damaged; of what is shown, only its id is certain.",
  ),
};
export const listedFields = { ...named, status, createdAt: time, ...shown };

const madeSecret = note(
  z.string().optional(),
  "The signing secret that the relay made, shown once, here. Left out where the request gave one.",
);
export const createdSubscription = z
  .strictObject({ ...named, secret: madeSecret, status, createdAt: time, ...shown })
  .meta({ id: "CreatedSubscription" });
export const listedSubscription = z.strictObject(listedFields).meta({ id: "Subscription" });
export const shownSubscription = z
  .strictObject({ ...named, status, createdAt: time, updatedAt: time, ...shown })
  .meta({ id: "SubscriptionDetail" });
export const updatedSubscription = z
  .strictObject({ ...named, status, updatedAt: time, ...shown })
  .meta({ id: "UpdatedSubscription" });
export const rotatedSubscription = z
  .strictObject({
    ...named,
    status,
    secret: note(z.string(), "The signing secret. Shown once, here."),
    updatedAt: time,
    previousSecretExpiresAt: time.nullable(),
  })
  .meta({ id: "RotatedSubscription" });
