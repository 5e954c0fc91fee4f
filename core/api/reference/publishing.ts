/** What is known of routes that are not operations of ours: publishing and the probes, for the documentation. */
import { z } from "zod";
import type { ProblemCode } from "../../model/problem.ts";

export interface KnownRoute {
  readonly summary: string;
  readonly tag: string;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly body?: z.ZodType;
  readonly query?: z.ZodType | undefined;
  /** Request headers that mean something to it. */
  readonly headers?: z.ZodType;
  /** Handed on: bodies are of any type, and most answers are not ours. */
  readonly through?: true;
  /** The whole body; without one there is none. */
  readonly replies: readonly (readonly [status: number, body: z.ZodType | undefined])[];
  /** Headers of its replies, and what each says. */
  readonly says?: Readonly<Record<string, z.ZodType>>;
  readonly problems: readonly ProblemCode[];
  /** Of the answer. @default "application/json" */
  readonly type?: string;
}

const time = z.iso.datetime();
const meta = z.strictObject({ timestamp: time });
const event = z
  .strictObject({
    type: z.string().meta({ examples: ["deposit:paid"] }),
    keyId: z.string().meta({ examples: ["key_1"] }),
    data: z.unknown().meta({ description: "Any JSON. It reaches receivers byte for byte." }),
    id: z.string().optional().meta({ description: "The publisher's own, unique per key; made when left out." }),
    createdAt: z.iso.datetime({ offset: true }).optional(),
  })
  .meta({ id: "Publication" });
const accepted = z
  .strictObject({
    id: z.string(),
    type: z.string(),
    keyId: z.string(),
    createdAt: time,
    deliveries: z.int(),
    duplicate: z.boolean(),
  })
  .meta({ id: "Accepted" });
const readyParts = z.record(z.string(), z.strictObject({ ready: z.boolean(), state: z.string().optional() }));
const ready = z.strictObject({ data: z.strictObject({ status: z.string(), parts: readyParts }), meta });

export const publishing: Readonly<Record<string, KnownRoute | undefined>> = {
  "POST /events": {
    summary: "Publish events; a 202 means that they are stored",
    tag: "Publishing",
    security: [{ publish: [] }],
    body: z.union([event, z.array(event)]),
    replies: [[202, z.strictObject({ data: z.union([accepted, z.array(accepted)]), meta })]],
    says: {
      "Relay-Durability": z.enum(["fsync", "replicated", "volatile"]).meta({
        description:
          "What this 202 is worth. fsync: synced to the disk of the machine or engine that keeps it; replicated: that, and acknowledged by another copy; volatile: neither.",
      }),
    },
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
  },
  "GET /healthz": {
    summary: "Alive",
    tag: "Probes",
    security: [],
    replies: [[200, z.strictObject({ data: z.strictObject({ status: z.string(), startedAt: time }), meta })]],
    problems: [],
  },
  "GET /readyz": {
    summary: "Ready to serve, with the state of each part",
    tag: "Probes",
    security: [],
    replies: [
      [200, ready],
      [503, ready],
    ],
    problems: [],
  },
};
