/** `GET /.well-known/relay-keys`: the public keys that verify the Ed25519 signatures of deliveries. */
import { z } from "zod";
import type { Route } from "../../ports/route.ts";

interface PublicWebhookKey {
  /** `whpk_…` of Standard Webhooks. */
  readonly publicText: string;
  readonly jwk: Readonly<Record<"kty" | "crv" | "x" | "kid" | "alg" | "use", string>>;
}

const key = z
  .strictObject({
    kty: z.literal("OKP"),
    crv: z.literal("Ed25519"),
    x: z.string(),
    kid: z.string(),
    alg: z.literal("EdDSA"),
    use: z.literal("sig"),
    whpk: z.string().meta({ description: "The same key as Standard Webhooks writes it: `whpk_` and base64." }),
  })
  .meta({ id: "WebhookKey" });
const published = z.strictObject({ keys: z.array(key) }).meta({ id: "WebhookKeys" });

/** No route where deliveries carry no Ed25519 signature. */
export function webhookKeyRoutes(keys: readonly PublicWebhookKey[]): readonly Route[] {
  if (keys.length === 0) return [];
  const type = "application/jwk-set+json";
  const body = JSON.stringify({ keys: keys.map(({ jwk, publicText }) => ({ ...jwk, whpk: publicText })) });
  return [
    {
      method: "GET",
      path: "/.well-known/relay-keys",
      describe: {
        operationId: "getWebhookKeys",
        summary: "The public keys of the Ed25519 signatures (`v1a`) of deliveries, the newest first (RFC 7517)",
        tag: "Verification",
        answers: [{ status: 200, content: { type, schema: published } }],
      },
      handle: () =>
        Promise.resolve({
          status: 200,
          headers: { "content-type": type, "cache-control": "public, max-age=300" },
          body,
        }),
    },
  ];
}
