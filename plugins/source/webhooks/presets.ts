/** What the documentation of providers says, as data: how they sign, where ids and types stand, how long they wait for an answer. */
import type { Addresses, ApiKey, Basic, Ed25519, Hmac, HmacOptions } from "./scheme.ts";

type Options<Kind extends { readonly by: string }> = Omit<Kind, "by">;

/** An HMAC of the body, and of what else is named. */
export const hmac = (options: HmacOptions): Hmac => ({ by: "hmac", ...options });
/** An Ed25519 signature, verified by a public key. */
export const ed25519 = (options: Options<Ed25519>): Ed25519 => ({ by: "ed25519", ...options });
/** User and password (RFC 7617). It proves who sends, not what is sent: only over TLS. */
export const basic = (options: Options<Basic>): Basic => ({ by: "basic", ...options });
/** A key in a header or in the query. It proves who sends, not what is sent: only over TLS. */
export const apiKey = (options: Options<ApiKey>): ApiKey => ({ by: "apiKey", ...options });
/** The addresses that may send: addresses and CIDRs. A rule in a list beside another verification. */
export const addresses = (list: readonly string[]): Addresses => ({ by: "addresses", addresses: list });

/** The options of a preset: the secret, and any other field in place of the preset's own. */
type Preset = Pick<HmacOptions, "secret"> & Partial<HmacOptions>;
type AddressPreset = Preset & Required<Pick<HmacOptions, "url">>;

const standard = (name: string, prefix: string) =>
  ({
    name,
    header: `${prefix}-signature`,
    separator: " ",
    encoding: "base64",
    timestamp: `${prefix}-timestamp`,
    signed: `{header.${prefix}-id}.{timestamp}.{body}`,
    id: `{header.${prefix}-id}`,
    type: ["{body.type}", "{body.event_type}", name],
  }) as const;
const SYMMETRIC = { by: "hmac", prefix: "v1,", secretEncoding: "whsec" } as const;

/** Standard Webhooks (https://www.standardwebhooks.com), by a secret `whsec_…`, or by a public key `whpk_…`. */
export const standardWebhooks = (
  options: Preset | (Pick<Ed25519, "publicKey"> & Partial<Options<Ed25519>>),
): Hmac | Ed25519 => {
  const data = standard("standard-webhooks", "webhook");
  return typeof options === "object" && options !== null && "publicKey" in options
    ? { ...data, by: "ed25519", prefix: "v1a,", ...options }
    : { ...data, ...SYMMETRIC, ...options };
};

/** Svix, and the many providers that send through it (https://docs.svix.com/receiving/verifying-payloads/how-manual). */
export const svix = (options: Preset): Hmac => ({ ...standard("svix", "svix"), ...SYMMETRIC, ...options });

/** Stripe (https://docs.stripe.com/webhooks/signature): the endpoint's signing secret, `whsec_…`. */
export const stripe = (options: Preset): Hmac => ({
  by: "hmac",
  name: "stripe",
  header: "stripe-signature",
  separator: ",",
  prefix: "v1=",
  timestamp: { field: "t=" },
  signed: "{timestamp}.{body}",
  id: "{body.id}",
  type: ["{body.type}", "stripe"],
  ...options,
});

/** GitHub (https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries): types are `issues.opened`, `push`. */
export const github = (options: Preset): Hmac => ({
  by: "hmac",
  name: "github",
  header: "x-hub-signature-256",
  prefix: "sha256=",
  id: "{header.x-github-delivery}",
  type: ["{header.x-github-event}.{body.action}", "{header.x-github-event}", "github"],
  timeoutMs: 9_000,
  ...options,
});

/** Shopify (https://shopify.dev/docs/apps/build/webhooks): the app's client secret. Types are `orders.create`. */
export const shopify = (options: Preset): Hmac => ({
  by: "hmac",
  name: "shopify",
  header: "x-shopify-hmac-sha256",
  encoding: "base64",
  id: "{header.x-shopify-webhook-id}",
  type: ["{header.x-shopify-topic}", "shopify"],
  timeoutMs: 4_500,
  ...options,
});

/** Slack (https://docs.slack.dev/authentication/verifying-requests-from-slack): the app's signing secret. */
export const slack = (options: Preset): Hmac => ({
  by: "hmac",
  name: "slack",
  header: "x-slack-signature",
  prefix: "v0=",
  timestamp: "x-slack-request-timestamp",
  signed: "v0:{timestamp}:{body}",
  id: ["{body.event_id}", "{body.trigger_id}"],
  type: ["{body.event.type}", "{body.type}", "slack"],
  challenge: { of: "{body.type}", is: "url_verification", answer: "{body.challenge}" },
  timeoutMs: 2_500,
  ...options,
});

/** Twilio (https://www.twilio.com/docs/usage/security): the auth token, and the address as Twilio has it. */
export const twilio = (options: AddressPreset): Hmac => ({
  by: "hmac",
  name: "twilio",
  header: "x-twilio-signature",
  algorithm: "sha1",
  encoding: "base64",
  signed: "{url}{form}",
  bodyHash: "bodySHA256",
  id: "{header.i-twilio-idempotency-token}",
  type: ["message.{body.MessageStatus}", "message.{body.SmsStatus}", "call.{body.CallStatus}", "twilio"],
  ...options,
});

/** Square (https://developer.squareup.com/docs/webhooks/step3validate): the signature key, and the address as Square has it. */
export const square = (options: AddressPreset): Hmac => ({
  by: "hmac",
  name: "square",
  header: "x-square-hmacsha256-signature",
  encoding: "base64",
  signed: "{url}{body}",
  id: "{body.event_id}",
  type: ["{body.type}", "square"],
  timeoutMs: 9_000,
  ...options,
});
