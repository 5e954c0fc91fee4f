/** Publishes one event for somebody who manages the key: it stands in the audit trail, with its author. */
import { z } from "zod";
import { EVENT_NAME } from "../../model/names.ts";
import { auditChange } from "../../records/audit-trail.ts";
import type { AcceptedWith } from "../../publish/accept.ts";
import type { Accepted, AcceptRequest } from "../../ports/source.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Storage } from "../../ports/storage.ts";
import { type AnyOperation, operation } from "../http/operation.ts";

/** Accepts an event, and stores `also` in the same commit. */
export type PublishAs = (request: AcceptRequest, also: AcceptedWith) => Promise<readonly Accepted[]>;

const NAME = "must be 1 to 128 characters of A-Z a-z 0-9 _ - in parts separated by : or .";
const ID = "must be 1 to 128 characters of A-Z a-z 0-9 _ : -, the first a letter or digit";

const body = z
  .strictObject({
    type: z
      .string()
      .max(128, NAME)
      .regex(EVENT_NAME, NAME)
      .meta({
        description: "A name of the catalogue, where there is one. Names that start with `relay:` are the relay's own.",
        examples: ["deposit:paid"],
      }),
    data: z
      .unknown()
      .refine((data) => data !== undefined, "is missing")
      .meta({
        description: "Any JSON without repeated names. It reaches receivers byte for byte.",
        examples: [{ amount: "12.50", currency: "EUR" }],
      }),
    id: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9_:-]{0,127}$/, ID)
      .optional()
      .meta({ description: "An id of your own, unique per key; made when left out.", examples: ["invoice-17"] }),
    createdAt: z.iso
      .datetime({ offset: true, error: "must be an RFC 3339 date-time with an offset" })
      .optional()
      .meta({ description: "When it happened; the time of acceptance when left out." }),
  })
  .meta({ id: "PublishRequest", description: "At most 64 KiB." });

export const acceptedByHand = z
  .strictObject({
    id: z.string(),
    type: z.string(),
    keyId: z.string(),
    createdAt: z.iso.datetime(),
    deliveries: z.int().min(0).meta({ description: "How many subscriptions it goes to." }),
    duplicate: z.boolean().meta({ description: "True: it was stored before, and is not sent again." }),
  })
  .meta({ id: "PublishedEvent" });

export function publishOperations(deps: {
  readonly publish?: PublishAs | undefined;
  readonly storage: Pick<Storage, "durability">;
  readonly clock: Pick<Clock, "now">;
}): readonly AnyOperation[] {
  const { publish, storage, clock } = deps;
  if (publish === undefined) return [];
  return [
    operation({
      method: "POST",
      path: "/api-keys/{keyId}/events",
      summary: "Publish an event by hand, as a manager of the key; a 202 means that it is stored",
      tag: "Events",
      body,
      reply: { status: 202, data: acceptedByHand },
      problems: ["IDEMPOTENCY_MISMATCH", "PROVIDER_BACKPRESSURE"],
      async handle({ keyId, text = "", actor, call: { requestId } }) {
        // The text as it was sent: a parsed value would not have the same bytes.
        const publications = [{ text, path: "", defaults: { keyId } }];
        const [event] = await publish({ publications, keys: [keyId], requestId, source: "api" }, (fresh) =>
          fresh.map(({ id, type }) => {
            const line = { action: "event.published", target: id, detail: type } as const;
            return auditChange(keyId, actor, clock, line);
          }),
        );
        return { status: 202, data: event, headers: { "Relay-Durability": storage.durability } };
      },
    }),
  ];
}
