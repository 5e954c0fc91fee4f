/** What receivers get: the body and the headers of a delivery, for the `webhooks` section of the document. */
import { z } from "zod";
import type { RepeatedHeaders } from "../../model/header-names.ts";
import type { Json, SchemaCollection } from "./json-schema.ts";
import { contentOf, parameters } from "./paths.ts";

const text = (description: string, example: string) => z.string().meta({ description, examples: [example] });
const hex = z.string().regex(/^[0-9a-f]{64}$/);
const count = (description: string, example: string) =>
  z
    .string()
    .regex(/^[1-9]\d*$/)
    .meta({ description, examples: [example] });

/** The body of a delivery: these fields in this order, without any other white space. */
export const deliveredEvent = z
  .strictObject({
    id: z
      .string()
      .max(128)
      .meta({
        description: "Unique per API key, and the same in every attempt and replay: skip an id that you have seen.",
        examples: ["evt_01J9ZK3V7Q8R5T2W4X6Y0A1B2C"],
      }),
    type: z
      .string()
      .max(128)
      .meta({
        description: "The name of the event. Names that start with `relay:` are the relay's own.",
        examples: ["deposit:paid"],
      }),
    keyId: z
      .string()
      .max(64)
      .meta({ description: "The API key that the event is of.", examples: ["key_1"] }),
    createdAt: z.iso.datetime().meta({ description: "When it happened: UTC, with milliseconds." }),
    data: z.unknown().meta({ description: "Byte for byte as it was published." }),
  })
  .meta({ id: "DeliveredEvent" });

/** The headers that a delivery has of the relay's own. Static headers of the subscription come beside them. */
export const deliveredHeaders = z.object({
  "X-Relay-Webhook-Signature": hex.meta({
    description:
      "HMAC-SHA256 of the raw body in lower-case hex. The key is the whole secret as text, `whsec_` included.",
  }),
  "X-Relay-Webhook-Signature-Previous": hex.optional().meta({
    description: "The same by the previous secret, for as long as that overlaps after a rotation.",
  }),
  "webhook-id": text("The event's id.", "evt_01J9ZK3V7Q8R5T2W4X6Y0A1B2C"),
  "webhook-timestamp": count("When this attempt was signed, in epoch seconds.", "1767225600"),
  "webhook-signature": text(
    "Standard Webhooks: `v1,` and the HMAC-SHA256 of `webhook-id.webhook-timestamp.body` in base64. The key is what stands behind `whsec_`, decoded. One for each secret that is live, with spaces between them. Where the relay signs with Ed25519 too, `v1a,` and that signature follow, for the keys of `/.well-known/relay-keys`.",
    "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
  ),
  "X-Relay-Event": text("The name of the event.", "deposit:paid"),
  "X-Relay-Attempt": count("Counts the attempts, from 1 on; a replay begins again.", "1"),
  "X-Relay-Replay": count("Counts the replays, from 1 on. A first delivery has no such header.", "1").optional(),
  "Content-Digest": text("SHA-256 of the body (RFC 9530).", "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"),
  traceparent: text(
    "W3C trace context, where it was published with one.",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  ).optional(),
});

const example = {
  id: "evt_01J9ZK3V7Q8R5T2W4X6Y0A1B2C",
  type: "deposit:paid",
  keyId: "key_1",
  createdAt: "2026-01-01T00:00:00.000Z",
  data: { amount: "12.50", currency: "EUR" },
};

/** @param repeated names of the config for headers that are sent twice */
function allHeaders(repeated: RepeatedHeaders): z.ZodObject {
  const own = deliveredHeaders.shape;
  const again = Object.entries(repeated).map(([name, of]) => {
    const one = own[of].meta({ ...own[of].meta(), description: `The same as \`${of}\`.` });
    return [name, one] as const;
  });
  return z.object({ ...own, ...Object.fromEntries(again) });
}

export const webhooks = (schemas: SchemaCollection, repeated: RepeatedHeaders): Json => ({
  event: {
    post: {
      operationId: "receiveEvent",
      summary: "An event, sent to the URL of each subscription that lists its name",
      description:
        "Check one of the two signatures over the raw body before you parse it, and compare in constant time. An answer that is no 2xx is tried again, up to 5 times in all; then the delivery is `failed` and can be replayed. A subscription with a transform gets the body that its transform makes instead.",
      tags: ["Deliveries"],
      security: [],
      parameters: parameters("header", allHeaders(repeated), schemas),
      requestBody: {
        required: true,
        content: contentOf([{ schema: deliveredEvent, examples: { event: example } }], "output", schemas),
      },
      responses: {
        "2XX": { description: "Delivered, whatever the body says." },
        410: { description: "The endpoint is gone: the subscription is disabled." },
        429: { description: "Tried again, not before the time that `Retry-After` names." },
        503: { description: "Tried again, not before the time that `Retry-After` names." },
        default: { description: "Tried again." },
      },
    },
  },
});
