/**
 * Endpoints of Svix: `EndpointOut`, as `GET /api/v1/app/{app_id}/endpoint` lists them, with the `key` of each one's
 * `EndpointSecretOut` as `key` or `secret`; or `EndpointIn`. Source: the models `endpointIn`, `endpointOut` and
 * `endpointSecretOut` in Svix's own library (svix 1.86 for JavaScript, 1.91 for Rust).
 */
import { SECRET_PREFIX } from "../../core/model/signing-secret.ts";
import { isFilled, textOf, type Format } from "./format.ts";

/** Names and times that have no meaning here. */
const DROPPED = ["id", "uid", "version", "createdAt", "updatedAt", "disabled", "channels", "filterTypes", "key"];
/** Fields that are not carried over, and are reported where an entry has them. */
const LEFT_BEHIND = ["metadata", "rateLimit"];

export const svix: Format = (fields) => {
  const url = textOf(fields["url"]);
  if (isFilled(fields["channels"]))
    return { errors: ["channels: have no counterpart: remove them, and set a filter afterwards"], url };
  const { description, throttleRate, secret, headers, ...rest } = fields;
  const kept = Object.entries(rest).filter(([name]) => !DROPPED.includes(name) && !LEFT_BEHIND.includes(name));
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
    notes: LEFT_BEHIND.filter((name) => isFilled(fields[name])),
  };
};

/** The prefix is optional there. */
function withSecret(secret: unknown): { readonly secret?: unknown } {
  if (secret === undefined || secret === null) return {};
  return {
    secret: typeof secret === "string" && !secret.startsWith(SECRET_PREFIX) ? SECRET_PREFIX + secret : secret,
  };
}
