/** The shapes of requests and answers: what validates them, types them and documents them. */
import { z } from "zod";
import { HEADER_NAME, isReservedHeader, MAX_HEADER_NAME } from "../../model/header-names.ts";
import { isEventPattern } from "../../model/names.ts";
import { TRANSFORM_NAME } from "../../model/transform.ts";
import { filter, path } from "./filter-schema.ts";
import { deliveryStatuses } from "./statuses.ts";
import { number, ownSecret, retry, whole } from "./field-schemas.ts";
import { isSpan, moment, NO_SPAN } from "./span.ts";

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
    if (names.length > MAX_HEADERS)
      ctx.addIssue({ code: "custom", path: [], message: `may be at most ${MAX_HEADERS}` });
    const seen = new Set<string>();
    for (const name of names) {
      const lower = name.toLowerCase();
      if (name.length > MAX_HEADER_NAME || !HEADER_NAME.test(name))
        ctx.addIssue({ code: "custom", path: [name], message: "is not a header name" });
      else if (isReservedHeader(name)) ctx.addIssue({ code: "custom", path: [name], message: "is the relay's own" });
      else if (seen.has(lower)) ctx.addIssue({ code: "custom", path: [name], message: "is given more than once" });
      seen.add(lower);
    }
  })
  .meta({
    description:
      "Static request headers. Values are encrypted at rest and answered as null. Refused are the headers of the relay's own and of the connection.",
    maxProperties: MAX_HEADERS,
    propertyNames: { type: "string", maxLength: MAX_HEADER_NAME, pattern: HEADER_NAME.source },
  });

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
const newOauth2 = z.strictObject({ ...oauth2Fields, clientSecret: visible(1_024) }).meta({ description: OAUTH2 });
const oauth2 = z
  .strictObject({ ...oauth2Fields, clientSecret: visible(1_024).nullable() })
  .meta({ description: `${OAUTH2} In an update null keeps it, where the token URL keeps its origin.` });

const ORDERED =
  "Deliveries go one after another, in the order in which their events were accepted. `false` and `null` clear it, with the two below.";
const ORDER_BY =
  "The path of a value in the event, such as `data.account`: only deliveries of equal values wait for each other.";
const ON_FAILED =
  "What a failed delivery does: with `skip` the next one goes, with `hold` those behind it wait until it is replayed or skipped. `skip` when left out.";
const options = {
  description: z.string().max(1_000).nullable().optional(),
  rateLimit: z
    .strictObject({ perSecond: number(0.01, 10_000) })
    .nullable()
    .optional()
    .meta({
      description: "Most attempts a second. Each node keeps it by itself: with two nodes it may be twice as many.",
    }),
  timeoutMs: whole(1_000, 30_000).nullable().optional(),
  retry: retry.nullable().optional(),
  clientCertificate: clientCertificate.nullable().optional(),
  filter: filter.nullable().optional(),
  transform: z
    .string()
    .regex(TRANSFORM_NAME, "must be the name of a transform")
    .nullable()
    .optional()
    .meta({ description: "A transform of the relay's config, which makes the body of each delivery." }),
  ordered: z.boolean().nullable().optional().meta({ description: ORDERED }),
  orderBy: path.nullable().optional().meta({ description: ORDER_BY }),
  onFailed: z.enum(["skip", "hold"]).nullable().optional().meta({ description: ON_FAILED }),
};
/** Nothing is stored yet at a create: there is no value that `null` could keep. */
const newHeaders = headers.refine(
  (given) => Object.values(given).every((value) => value !== null),
  "need a value each",
);

export const createBody = (schemes: readonly string[]) =>
  z
    .strictObject({
      url: urlOf(schemes),
      events,
      ...options,
      headers: newHeaders.nullable().optional(),
      oauth2: newOauth2.nullable().optional(),
      secret: ownSecret.nullable().optional(),
      status: z
        .enum(["active", "disabled"])
        .optional()
        .meta({ description: "`disabled`: nothing is sent until it is enabled. `active` when left out." }),
    })
    .meta({ id: "SubscriptionCreate" });

export const updateBody = (schemes: readonly string[]) =>
  z
    .strictObject({
      url: urlOf(schemes).optional(),
      events: events.optional(),
      status: z.enum(["active", "disabled"]).optional(),
      ...options,
      headers: headers.nullable().optional(),
      oauth2: oauth2.nullable().optional(),
    })
    .meta({ id: "SubscriptionUpdate" });

export const rotateBody = z
  .strictObject({
    overlapSeconds: whole(0, 604_800)
      .default(86_400)
      .meta({ description: "How long the old secret goes on signing beside the new one; 0 ends it now." }),
  })
  .meta({ id: "RotateSecret" });

export const replayBody = z
  .strictObject({ subscriptionId: z.string().max(64).optional(), force: z.boolean().optional() })
  .meta({ id: "Replay" });

export const bulkReplayBody = z
  .strictObject({
    since: moment.optional(),
    until: moment.optional(),
    dryRun: z.boolean().default(false),
    limit: whole(1, 10_000).default(10_000),
    perSecond: number(0.1, 1_000).default(50),
  })
  .refine(isSpan, NO_SPAN)
  .meta({ id: "BulkReplay" });

/** Parameters of paths. What does not fit is not found, like everything else that is not there. */
export const pathParameters = z.object({
  keyId: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9_:-]{0,63}$/)
    .meta({ examples: ["key_1"] }),
  subscriptionId: z
    .string()
    .max(64)
    .meta({ examples: ["sub_01J9ZK3V7Q8R5T2W4X6Y0A1B2C"] }),
  eventId: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9_:-]{0,127}$/)
    .meta({ examples: ["evt_01J9ZK3V7Q8R5T2W4X6Y0A1B2C"] }),
  eventType: z
    .string()
    .max(128)
    .meta({ examples: ["deposit:paid"] }),
});

export const DEFAULT_LIMIT = 50;
export const MAX_LIMIT = 200;

/** Query parameters of a list. */
export const paging = {
  cursor: z.string().max(1_024).optional(),
  limit: z
    .string()
    .regex(/^\d{1,3}$/, "must be 1 to 200")
    .transform(Number)
    .refine((limit) => limit >= 1 && limit <= 200, "must be 1 to 200")
    .optional()
    .meta({
      type: "integer",
      minimum: 1,
      maximum: MAX_LIMIT,
      pattern: undefined,
      description: `${DEFAULT_LIMIT} when left out.`,
    }),
};

export const pageQuery = z.strictObject(paging);
export const deliveriesQuery = z.strictObject({ status: deliveryStatuses.optional(), ...paging });
export const streamQuery = z.strictObject({
  since: moment.optional().meta({
    description:
      "A `meta.timestamp`: the first message is `again` where something may have happened on the key since then.",
  }),
});
const range = z.enum(["1h", "24h", "7d"]);
export const statsQuery = z.strictObject({ range: range.default("1h"), subscriptionId: z.string().max(64).optional() });
/** Keys that one page lists with figures: each costs a read of its own. */
export const MAX_WITH_FIGURES = 50;
export const keysQuery = z.strictObject({
  range: range.optional().meta({ description: "With the figures of each key over this time, at most 50 keys a page." }),
  ...paging,
});
export const statusQuery = z.strictObject({ range: range.optional() });
