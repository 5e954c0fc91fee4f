/** Makes requests of the entries of an import file, by the format that it has: our own, that of Svix or that of Convoy. */
import { secretProblem, SECRET_PREFIX } from "../../core/model/signing-secret.ts";
import { objectOf } from "../support/inputs.ts";

export type Translated =
  /** The body of the request that creates the subscription; `notes` name what is not carried over. */
  | { readonly body: Readonly<Record<string, unknown>>; readonly notes?: readonly string[] }
  /** Reasons that keep the entry from being imported, as `field: message`. */
  | { readonly errors: readonly string[]; readonly url?: string };

type Format = (fields: Readonly<Record<string, unknown>>) => Translated;

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** A list, map or text with something in it. */
function isFilled(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}

/** Given by the relay to a subscription; an import gives it new ones. */
const GIVEN_BY_RELAY = ["id", "disabledReason", "createdAt", "updatedAt"];

/** Fields that it does not know are kept, so that the check of the entry names them. */
export const ours: Format = (fields) => {
  const body = Object.fromEntries(Object.entries(fields).filter(([name]) => !GIVEN_BY_RELAY.includes(name)));
  // A schedule is listed with the attempts that follow from it, which a request does not name.
  const delaysMs = objectOf(body["retry"])?.["delaysMs"];
  return { body: delaysMs === undefined ? body : { ...body, retry: { delaysMs } } };
};

/** Names and times that have no meaning here. */
const DROPPED = ["id", "uid", "version", "createdAt", "updatedAt", "disabled", "channels", "filterTypes", "key"];
/** Fields that are not carried over, and are reported where an entry has them. */
const SVIX_LEFT_BEHIND = ["metadata", "rateLimit"];

/**
 * Endpoints of Svix: `EndpointOut`, as `GET /api/v1/app/{app_id}/endpoint` lists them, with the `key` of each one's
 * `EndpointSecretOut` as `key` or `secret`; or `EndpointIn`. Source: the models `endpointIn`, `endpointOut` and
 * `endpointSecretOut` in Svix's own library (svix 1.86 for JavaScript, 1.91 for Rust).
 */
export const svix: Format = (fields) => {
  const url = textOf(fields["url"]);
  if (isFilled(fields["channels"]))
    return { errors: ["channels: have no counterpart: remove them, and set a filter afterwards"], url };
  const { description, throttleRate, secret, headers, ...rest } = fields;
  const kept = Object.entries(rest).filter(([name]) => !DROPPED.includes(name) && !SVIX_LEFT_BEHIND.includes(name));
  return {
    body: {
      ...Object.fromEntries(kept),
      // Left out or null: all types.
      events: fields["filterTypes"] ?? ["*"],
      ...(isFilled(description) && { description }),
      ...(isFilled(headers) && { headers }),
      ...(isFilled(throttleRate) && { rateLimit: { perSecond: throttleRate } }),
      ...(fields["disabled"] === true && { status: "disabled" }),
      ...withSecret(secret ?? fields["key"]),
    },
    notes: SVIX_LEFT_BEHIND.filter((name) => isFilled(fields[name])),
  };
};

/** The prefix is optional there. */
function withSecret(secret: unknown): { readonly secret?: unknown } {
  if (secret === undefined || secret === null) return {};
  return { secret: typeof secret === "string" && !secret.startsWith(SECRET_PREFIX) ? SECRET_PREFIX + secret : secret };
}

const CONVOY_LEFT_BEHIND = ["retry_config", "rate_limit_config", "alert_config"];
const OF_ENDPOINT = ["http_timeout", "rate_limit", "slack_webhook_url", "support_email"];

/**
 * Subscriptions of Convoy, as `GET /api/v1/projects/{projectID}/subscriptions` lists them, each with its endpoint. Source:
 * https://www.getconvoy.io/docs/api-reference/subscriptions/list-all-subscriptions. Time-outs, rate limits and retries are
 * left behind, because that page names no units.
 */
export const convoy: Format = (fields) => {
  const endpoint = objectOf(fields["endpoint_metadata"]) ?? {};
  const url = textOf(endpoint["url"]);
  const status = textOf(endpoint["status"]);
  const { event_types: events, filter } = objectOf(fields["filter_config"]) ?? {};
  const conditions = objectOf(filter) ?? {};
  const { headers, problem } = headersOf(endpoint["authentication"]);
  const secret = secretOf(endpoint["secrets"]);
  const errors = [
    ...(isFilled(conditions["body"]) || isFilled(conditions["headers"])
      ? ["filter_config.filter: is not carried over: remove it, and set a filter afterwards"]
      : []),
    ...(isFilled(fields["function"]) ? ["function: is not carried over: remove it, and name a transform"] : []),
    ...(isFilled(endpoint["mtls_client_cert"])
      ? ["endpoint_metadata.mtls_client_cert: is not carried over: remove it, and set a client certificate"]
      : []),
    ...[problem, secret.problem].filter((text) => text !== undefined),
  ];
  if (errors.length > 0) return { errors, url };
  const description = [endpoint["description"], fields["name"]].find(isFilled);
  return {
    body: {
      ...(url !== undefined && { url }),
      ...(isFilled(events) && { events }),
      ...(description !== undefined && { description }),
      ...(headers !== undefined && { headers }),
      ...(secret.secret !== undefined && { secret: secret.secret }),
      // Paused, pending and inactive: nothing is sent there either.
      ...(status !== undefined && status !== "active" && { status: "disabled" }),
    },
    notes: [
      ...CONVOY_LEFT_BEHIND.filter((name) => isFilled(fields[name])),
      ...OF_ENDPOINT.filter((name) => isFilled(endpoint[name])).map((name) => `endpoint_metadata.${name}`),
    ],
  };
};

function headersOf(given: unknown): { readonly headers?: Record<string, unknown>; readonly problem?: string } {
  const authentication = objectOf(given);
  if (authentication === undefined || !isFilled(authentication["type"])) return {};
  const apiKey = objectOf(authentication["api_key"]);
  const name = textOf(apiKey?.["header_name"]);
  if (authentication["type"] === "api_key" && name !== undefined)
    return { headers: { [name]: apiKey?.["header_value"] } };
  return {
    problem: "endpoint_metadata.authentication: only api_key is carried over: remove it, and set it afterwards",
  };
}

/** The one secret without an end, any text there: its bytes stay the key of Standard Webhooks. */
function secretOf(given: unknown): { readonly secret?: string; readonly problem?: string } {
  if (!isFilled(given)) return {};
  const live = (Array.isArray(given) ? given : [])
    .map((one: unknown) => objectOf(one) ?? {})
    .filter((one) => !isFilled(one["expires_at"]) && !isFilled(one["deleted_at"]));
  const value = textOf(live[0]?.["value"]);
  if (live.length !== 1 || value === undefined)
    return { problem: "endpoint_metadata.secrets: must hold one secret without an end: remove the others" };
  if (secretProblem(value) === undefined) return { secret: value };
  return { secret: SECRET_PREFIX + Buffer.from(value, "utf8").toString("base64") };
}
