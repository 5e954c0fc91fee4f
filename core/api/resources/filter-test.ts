/** The filter test: whether an event matches a filter, and which of its conditions decided that. Nothing is sent or stored. */
import { z } from "zod";
import { bodyData } from "../../model/event.ts";
import { type Filter, type FilteredEvent, reportFilter } from "../../model/filter.ts";
import { wants } from "../../model/subscription.ts";
import type { Storage } from "../../ports/storage.ts";
import type { SubscriptionCache } from "../../subscriptions/subscriptions.ts";
import { type AnyOperation, operation } from "../http/operation.ts";
import { filter, filterTested } from "./filter-schema.ts";
import { findReadable, WEBHOOK } from "./subscriptions.ts";
import { isOneEvent, NOT_ONE_EVENT, ONE_EVENT, storedEvent, testedEvent } from "./tested-event.ts";

const body = z
  .strictObject({
    ...testedEvent,
    filter: filter
      .nullable()
      .optional()
      .meta({ description: "Judged in place of the stored filter; `null` stands for none." }),
  })
  .refine(isOneEvent, NOT_ONE_EVENT)
  .meta({ id: "FilterTestRequest", ...ONE_EVENT });

const none = { matched: true, conditions: [] };

export function filterTestOperations(deps: {
  readonly subscriptionCache: SubscriptionCache;
  readonly storage: Pick<Storage, "getItem" | "getMany">;
}): readonly AnyOperation[] {
  const { subscriptionCache, storage } = deps;

  async function stored(keyId: string, id: string): Promise<FilteredEvent> {
    const event = await storedEvent(storage, keyId, id);
    return { type: event.type, data: JSON.parse(bodyData(event)) as unknown };
  }

  return [
    operation({
      method: "POST",
      path: `${WEBHOOK}/filter/test`,
      summary: "Test a filter on an event: whether it matches, and why",
      tag: "Subscriptions",
      portal: true,
      access: "read",
      body,
      reply: { status: 200, data: filterTested },
      // Its stored record is damaged.
      problems: ["CONFLICT"],
      async handle({ keyId, params, body: asked }) {
        const subscription = await findReadable(subscriptionCache, keyId, params["subscriptionId"] ?? "");
        const event: FilteredEvent = asked.event === undefined ? await stored(keyId, asked.eventId ?? "") : asked.event;
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
