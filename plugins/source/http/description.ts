/** Describes `POST /events` for OpenAPI. Events are checked by hand; a test compares the two. */
import { z } from "zod";
import { MAX_BATCH_EVENTS } from "../../../core/model/event.ts";
import {
  HEADER_NAME,
  MAX_HEADER_NAME,
  MOST_EVENT_HEADERS,
  MOST_HEADER_CHARS,
} from "../../../core/model/header-names.ts";
import type { RouteDescription } from "../../../core/ports/route.ts";

const KEY_ID = /^[A-Za-z0-9][A-Za-z0-9_:-]{0,63}$/;
const EVENT_ID = /^[A-Za-z0-9][A-Za-z0-9_:-]{0,127}$/;
const EVENT_TYPE = /^(?!relay:)[A-Za-z0-9_-]+(?:[:.][A-Za-z0-9_-]+)*$/;

const event = z
  .strictObject({
    type: z
      .string()
      .max(128)
      .regex(EVENT_TYPE)
      .meta({
        examples: ["deposit:paid"],
        description: "A name of the catalogue, where there is one. Names that start with `relay:` are the relay's own.",
      }),
    keyId: z
      .string()
      .regex(KEY_ID)
      .meta({ examples: ["key_1"], description: "The API key that the event is of." }),
    data: z.unknown().meta({
      description: "Any JSON, nested at most 64 levels deep. It reaches receivers byte for byte.",
      examples: [{ amount: "12.50", currency: "EUR" }],
    }),
    id: z
      .string()
      .regex(EVENT_ID)
      .optional()
      .meta({
        description: "The publisher's own, unique per key; made when left out.",
        examples: ["invoice-17"],
      }),
    createdAt: z.iso
      .datetime({ offset: true })
      .optional()
      .meta({ description: "RFC 3339, with an offset; the time of acceptance when left out." }),
    headers: z
      .record(
        z.string().max(MAX_HEADER_NAME).regex(HEADER_NAME),
        z
          .string()
          .max(MOST_HEADER_CHARS)
          .regex(/^[\x20-\x7e]*$/),
      )
      .optional()
      .meta({
        description: `Sent with each delivery, where the subscription sets none of that name: at most ${MOST_EVENT_HEADERS}, of ${MOST_HEADER_CHARS} characters. Refused are those of the relay and of the connection, Accept and Authorization.`,
        examples: [{ "x-tenant": "t-1" }],
        maxProperties: MOST_EVENT_HEADERS,
      }),
  })
  .meta({ id: "Publication", description: "At most 256 KiB." });

const time = z.iso.datetime();
const meta = z.strictObject({ timestamp: time }).meta({ id: "Meta" });
const accepted = z
  .strictObject({
    id: z.string(),
    type: z.string(),
    keyId: z.string(),
    createdAt: time,
    deliveries: z.int().min(0).meta({ description: "How many subscriptions it goes to." }),
    duplicate: z.boolean().meta({ description: "True: it was stored before, and is not sent again." }),
  })
  .meta({ id: "Accepted" });

const example = { type: "deposit:paid", keyId: "key_1", data: { amount: "12.50", currency: "EUR" } };
const second = { ...example, id: "invoice-17" };

export const publishing: RouteDescription = {
  operationId: "publishEvents",
  summary: "Publish events; a 202 means that they are stored",
  description:
    "One event, a list of them, one a line (NDJSON), or CloudEvents (`application/cloudevents+json`, `application/cloudevents-batch+json`, or binary: `ce-…` headers and any content type); at most 8 MiB and 1,000 events a request. `Content-Encoding` may be `gzip` or `deflate`. All or nothing: where one of them is wrong, none is stored. An event that is published again, with the same id, type, headers, data and (where given) createdAt, is answered with `duplicate: true`; anything else under that id is a 409.",
  tag: "Publishing",
  security: { name: "publish", description: "A publish token." },
  headers: z.strictObject({
    "Idempotency-Key": z
      .string()
      .regex(/^[\x21-\x7e]{1,128}$/)
      .optional()
      .meta({
        description:
          "Names this request. Sent again with the same body within 24 hours it is answered as the first time; with another body it is a 409.",
        examples: ["0d9f6b1e-6f0c-4b53-9a55-8f1a1f6f2a11"],
      }),
    traceparent: z
      .string()
      .max(256)
      .optional()
      .meta({
        description: "W3C trace context: kept, and sent along with the deliveries. One that is malformed is ignored.",
        examples: ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
      }),
  }),
  // CloudEvents have no entry: where there are two bodies of JSON, a generated client tells them apart by their types, and fails.
  body: [
    {
      schema: z.union([event, z.array(event).min(1).max(MAX_BATCH_EVENTS)]).meta({ id: "Publications" }),
      examples: { one: example, list: [example, second] },
    },
    {
      type: "application/x-ndjson",
      schema: z.string().meta({ description: "A `Publication` a line, at most 1,000 of them." }),
      examples: { lines: `${JSON.stringify(example)}\n${JSON.stringify(second)}\n` },
    },
  ],
  answers: [
    {
      status: 202,
      description: "Stored. A list is answered with a list, in its order.",
      headers: z.strictObject({
        "Relay-Durability": z.enum(["fsync", "replicated", "volatile"]).meta({
          description:
            "What this 202 is worth. fsync: synced to the disk of the machine or engine that keeps it; replicated: that, and acknowledged by another copy; volatile: neither.",
        }),
      }),
      content: {
        schema: z.strictObject({ data: z.union([accepted, z.array(accepted)]), meta }).meta({ id: "AcceptedEnvelope" }),
      },
    },
  ],
  problems: [
    "INVALID_JSON",
    "VALIDATION_FAILED",
    "UNAUTHENTICATED",
    "NOT_FOUND",
    "IDEMPOTENCY_MISMATCH",
    "PAYLOAD_TOO_LARGE",
    "UNSUPPORTED_MEDIA_TYPE",
    "ABUSE_SUSPEND",
    "RATE_LIMIT_EXCEEDED",
    "BURST_EXCEEDED",
    "PROVIDER_BACKPRESSURE",
    "INTERNAL_ERROR",
    "STORAGE_UNAVAILABLE",
    "STORAGE_FULL",
    "SHUTTING_DOWN",
  ],
};
