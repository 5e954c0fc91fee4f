/** The filter test: whether an event matches a filter, and which of its conditions decided that. Nothing is sent or stored. */
import { z } from "zod";
import { bodyData } from "../../model/event.ts";
import type { Filter, Judged } from "../../model/filter.ts";
import { reportFilter } from "../../model/filter-report.ts";
import { Problem } from "../../model/problem.ts";
import { wants } from "../../model/subscription.ts";
import type { Storage } from "../../ports/storage.ts";
import { locateEvent } from "../../records/find-event.ts";
import type { SubscriptionCache } from "../../subscriptions/subscriptions.ts";
import { notFound } from "../http/checks.ts";
import { operation } from "../http/operation.ts";
import type { AnyOperation } from "../http/operation.ts";
import { filter, filterTested } from "./filter-schema.ts";
import { findSubscription, WEBHOOK } from "./subscriptions.ts";

const body = z
  .strictObject({
    eventId: z.string().max(128).optional().meta({ description: "A stored event of the key." }),
    event: z
      .strictObject({
        type: z.string().min(1).max(128),
        data: z.unknown().refine((data) => data !== undefined, "is missing"),
      })
      .optional()
      .meta({ description: "An event that is not stored." }),
    filter: filter
      .nullable()
      .optional()
      .meta({ description: "Judged in place of the stored filter; `null` stands for none." }),
  })
  .refine(({ eventId, event }) => (eventId === undefined) !== (event === undefined), {
    path: ["eventId"],
    message: "give either eventId or event",
  })
  .meta({ id: "FilterTestRequest" });

const none = { matched: true, conditions: [] };

export function filterTestOperations(deps: {
  readonly subscriptionCache: SubscriptionCache;
  readonly storage: Pick<Storage, "getItem" | "getMany">;
}): readonly AnyOperation[] {
  const { subscriptionCache, storage } = deps;

  /** @throws Problem NOT_FOUND; VALIDATION_FAILED when its record is damaged */
  async function stored(keyId: string, id: string): Promise<Judged> {
    const located = await locateEvent(storage, keyId, id);
    if (located === undefined) throw notFound();
    if (located.damaged) {
      const errors = [{ path: "eventId", message: "names an event whose stored record is damaged" }];
      throw new Problem("VALIDATION_FAILED", "Choose another event.", { errors });
    }
    return { type: located.event.type, data: JSON.parse(bodyData(located.event)) as unknown };
  }

  return [
    operation({
      method: "POST",
      path: `${WEBHOOK}/filter/test`,
      summary: "Test a filter on an event: whether it matches, and why",
      tag: "Subscriptions",
      body,
      reply: { status: 200, data: filterTested },
      async handle({ keyId, params, body: asked }) {
        const subscription = await findSubscription(subscriptionCache, keyId, params["subscriptionId"] ?? "");
        const event: Judged = asked.event === undefined ? await stored(keyId, asked.eventId ?? "") : asked.event;
        const judged: Filter | undefined =
          asked.filter === undefined ? subscription.filter : (asked.filter ?? undefined);
        const { matched, conditions } = judged === undefined ? none : reportFilter(judged, event);
        const typeMatched = wants(subscription, event.type);
        const head = { matched: matched && typeMatched, typeMatched, filterMatched: matched };
        return { data: { ...head, type: event.type, filter: judged ?? null, conditions } };
      },
    }),
  ];
}
