/**
 * Subscriptions of Convoy, as `GET /api/v1/projects/{projectID}/subscriptions` lists them, each with its endpoint. Source:
 * https://www.getconvoy.io/docs/api-reference/subscriptions/list-all-subscriptions. Time-outs, rate limits and retries are
 * left behind, because that page names no units.
 */
import { secretProblem, SECRET_PREFIX } from "../../core/model/signing-secret.ts";
import { objectOf } from "./entries.ts";
import { isFilled, textOf, type Format } from "./format.ts";

const LEFT_BEHIND = ["retry_config", "rate_limit_config", "alert_config"];
const OF_ENDPOINT = ["http_timeout", "rate_limit", "slack_webhook_url", "support_email"];

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
      ...LEFT_BEHIND.filter((name) => isFilled(fields[name])),
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

/**
 * The one secret that has no end. It is any text there: its bytes become those of a secret here, so that they stay the key
 * of the Standard Webhooks signature.
 */
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
