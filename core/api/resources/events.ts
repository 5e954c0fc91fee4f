/** The events of a key: lists them, shows one with its deliveries, replays one, erases one. */
import { z } from "zod";
import { auditChange } from "../../records/audit-trail.ts";
import type { History } from "../../history/history.ts";
import type { EventErasure } from "../../retention/erase-event.ts";
import { replayable, type Replay } from "../../replay/replay.ts";
import { bodyData } from "../../model/event.ts";
import { ordinalTime } from "../../model/ids.ts";
import { noSuch } from "../../model/problem.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Cursors } from "../http/cursor.ts";
import { type AnyOperation, operation } from "../http/operation.ts";
import { probe, type Receivers, refuseResting } from "./expected-receivers.ts";
import { eventsQuery } from "./events-query.ts";
import { DEFAULT_LIMIT, MAX_LIMIT, pageQuery, replayBody } from "./schemas.ts";
import { listedEvent } from "./listed-event.ts";
import { replayed, shownEvent } from "./shapes.ts";
import type { SubscriptionCache } from "../../subscriptions/subscriptions.ts";
import { namesOf } from "./subscription-names.ts";
import { deliveryView, eventView, listedEventView } from "./views.ts";

const EVENTS = "/api-keys/{keyId}/events";
const EVENT = `${EVENTS}/{eventId}`;
const tag = "Events";

export function eventOperations(
  deps: Receivers & {
    readonly history: History;
    readonly replay: Replay;
    readonly eraseEvent: EventErasure["erase"];
    readonly cursors: Cursors;
    /** Of lists whose places are counted. */
    readonly places: Cursors;
    readonly subscriptionCache: Pick<SubscriptionCache, "get">;
    readonly clock: Pick<Clock, "now">;
  },
): readonly AnyOperation[] {
  const { history, subscriptionCache, replay, eraseEvent, cursors, places, clock } = deps;

  /** Whose deliveries of it a replay would send again, going by how they stand now. */
  async function meant(keyId: string, eventId: string, asked: z.output<typeof replayBody>): Promise<readonly string[]> {
    const ids: string[] = [];
    for await (const page of history.everyDelivery(keyId, eventId)) {
      for (const one of page)
        if ((asked.subscriptionId ?? one.subscriptionId) === one.subscriptionId && replayable(one, asked))
          ids.push(one.subscriptionId);
    }
    return ids;
  }

  return [
    operation({
      method: "GET",
      path: EVENTS,
      summary: "List or search the events of a key, newest first; each page looks at a bounded number of them",
      tag,
      portal: true,
      query: eventsQuery,
      reply: { status: 200, data: z.array(listedEvent), paged: true },
      async handle({ keyId, query }) {
        const { cursor, limit = DEFAULT_LIMIT, ...filter } = query;
        const list = `events:${keyId}:${JSON.stringify(filter)}`;
        const after = cursors.read(cursor, list);
        const { items, next } = await history.events(keyId, filter, { after, limit });
        const only = items.flatMap(({ deliveries: all = [] }) => (all.length === 1 ? all : []));
        const ids = only.map(({ subscriptionId }) => subscriptionId);
        const names = await namesOf(subscriptionCache, keyId, ids);
        return {
          data: items.map((one) => listedEventView(one, names)),
          nextCursor: cursors.write(next, list),
          ...(next !== undefined && { searchedTo: ordinalTime(next) }),
        };
      },
    }),
    operation({
      method: "GET",
      path: EVENT,
      summary: "Show an event with its data and its deliveries, a page of them",
      tag,
      portal: true,
      query: pageQuery,
      reply: { status: 200, data: shownEvent, paged: true },
      async handle({ keyId, params, query }) {
        const { cursor, limit = MAX_LIMIT } = query;
        const id = params["eventId"] ?? "";
        const list = `event:${keyId}:${id}`;
        const from = Number(places.read(cursor, list) ?? 0);
        const found = await history.event(keyId, id, { from, limit });
        if (found === undefined) throw noSuch("event");
        const { event, damaged, status, deliveries, next } = found;
        const head = JSON.stringify(eventView({ event, damaged, status })).slice(0, -1);
        const data = damaged ? "null" : bodyData(event);
        const ids = deliveries.map(({ delivery }) => delivery.subscriptionId);
        const names = await namesOf(subscriptionCache, keyId, ids);
        const shown = JSON.stringify(deliveries.map((one) => deliveryView(one, names)));
        // The published bytes as they are: parsing and writing them again would change numbers, order and escapes.
        return {
          text: `${head},"data":${data},"deliveries":${shown}}`,
          nextCursor: places.write(next === undefined ? undefined : String(next), list),
        };
      },
    }),
    operation({
      method: "POST",
      path: `${EVENT}/replay`,
      summary: "Send an event again: its failed deliveries, or to one subscription",
      tag,
      portal: true,
      body: replayBody,
      bodyOptional: true,
      reply: { status: 202, data: replayed },
      problems: ["NOT_REPLAYABLE", "PROVIDER_BACKPRESSURE", "CONFLICT"],
      async handle({ keyId, params, body, actor }) {
        const eventId = params["eventId"] ?? "";
        const ids = await meant(keyId, eventId, body);
        refuseResting(deps, ids);
        const line = { action: "event.replayed", target: eventId, detail: body.subscriptionId } as const;
        const also = [auditChange(keyId, actor, clock, line)];
        const moved = await replay.event(keyId, eventId, { ...body, also });
        await probe(deps, ids);
        return { data: { deliveries: moved } };
      },
    }),
    operation({
      method: "DELETE",
      path: EVENT,
      summary:
        "Erase an event with its data and deliveries, pending ones too: no attempt begins any more; its last bytes leave the files soon after",
      tag,
      reply: { status: 204 },
      problems: ["CONFLICT"],
      async handle({ keyId, params, actor }) {
        const eventId = params["eventId"] ?? "";
        const line = { action: "event.erased", target: eventId } as const;
        await eraseEvent(keyId, eventId, [auditChange(keyId, actor, clock, line)]);
        return {};
      },
    }),
  ];
}
