/** The events of a key: lists them, shows one with its deliveries, replays one, erases one, publishes one by hand. */
import { z } from "zod";
import type { EventSummary } from "../../history/history.ts";
import { isoTime } from "../../lib/time.ts";
import type { Delivery } from "../../model/delivery.ts";
import { bodyData, deliveryCount } from "../../model/event.ts";
import { MOST_EVENT_HEADERS, MOST_HEADER_CHARS } from "../../model/header-names.ts";
import { ordinalTime } from "../../model/ids.ts";
import { EVENT_NAME } from "../../model/names.ts";
import { noSuch } from "../../model/problem.ts";
import { auditChange } from "../../records/audit-trail.ts";
import { replayable } from "../../replay/replay.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import { attempted } from "./attempts.ts";
import { deliveryView, eventDelivery } from "./deliveries.ts";
import { probe, refuseResting } from "./delivery-actions.ts";
import type { ResourceDeps } from "./deps.ts";
import { attemptErrors, deliveryStatuses, eventStatuses, isSpan, moment, NO_SPAN, note, time } from "./fields.ts";
import { DEFAULT_LIMIT, MAX_LIMIT, pageQuery, paging } from "./lists.ts";
import { namesOf } from "./subscriptions.ts";

const operation = operationsOf("Events");

const EVENTS = "/api-keys/{keyId}/events";
const EVENT = `${EVENTS}/{eventId}` as const;

const eventsQuery = z
  .strictObject({
    status: note(eventStatuses.optional(), "Of the event as a whole: it is `pending` while one of its deliveries is."),
    delivery: note(
      deliveryStatuses.exclude(["cancelled"]).optional(),
      "It has a delivery in this state. With `subscriptionId`, `statusCode` and the like, that very one is meant.",
    ),
    type: z.string().max(128).regex(EVENT_NAME, "must be one event name, without *").optional(),
    subscriptionId: z.string().max(64).optional(),
    since: moment.optional(),
    until: moment.optional(),
    id: note(
      z
        .string()
        .regex(/^[A-Za-z0-9_:-]{1,128}$/, "must be an event id or its beginning")
        .optional(),
      "How the id begins.",
    ),
    text: note(
      z.string().min(1).max(200).optional(),
      "A part of `data` as it was published, letter by letter: in JSON, with escapes as they are.",
    ),
    ...attempted,
    ...paging,
  })
  .refine(isSpan, NO_SPAN);

const head = {
  id: z.string(),
  type: z.string(),
  keyId: z.string(),
  createdAt: time,
  acceptedAt: time,
  status: eventStatuses,
  damaged: note(z.literal(true).optional(), "Its stored record is damaged: what is shown of it may be wrong"),
};
const eventHeaders = note(z.record(z.string(), z.string()), "Sent with its deliveries. Left out where it has none.");
export const shownEvent = z
  .strictObject({ ...head, headers: eventHeaders.optional(), data: z.unknown(), deliveries: z.array(eventDelivery) })
  .meta({ id: "EventDetail" });
const lastAttempt = z
  .strictObject({
    subscriptionId: z.string(),
    at: time,
    statusCode: z.int().optional(),
    error: attemptErrors.optional(),
  })
  .meta({ id: "LastAttempt" });
export const listedEvent = z
  .strictObject({
    ...head,
    recipients: note(z.int(), "How many subscriptions get it."),
    deliveryCounts: note(
      z.strictObject({ delivered: z.int(), failed: z.int(), pending: z.int(), total: z.int() }).optional(),
      "How many of its deliveries are in which state; the rest is cancelled. Left out where it has very many.",
    ),
    subscriptionIds: note(z.array(z.string()).optional(), "The first three of them. Left out where it has very many."),
    subscriptionName: note(z.string().optional(), "Of the only one: its description, or else the host of its URL."),
    lastAttempt: note(lastAttempt.optional(), "The newest one of all its deliveries. Left out where it has very many."),
  })
  .meta({ id: "Event" });

const replayBody = z
  .strictObject({ subscriptionId: z.string().max(64).optional(), force: z.boolean().optional() })
  .meta({ id: "Replay" });

const replayed = z.strictObject({ deliveries: note(z.int(), "How many are sent again.") }).meta({ id: "Replayed" });

const TYPE = "must be 1 to 128 characters of A-Z a-z 0-9 _ - in parts separated by : or .";
const ID = "must be 1 to 128 characters of A-Z a-z 0-9 _ : -, the first a letter or digit";
const publishBody = z
  .strictObject({
    type: note(
      z.string().max(128, TYPE).regex(EVENT_NAME, TYPE),
      "A name of the catalogue, where there is one. Names that start with `relay:` are the relay's own.",
      "deposit:paid",
    ),
    data: note(
      z.unknown().refine((data) => data !== undefined, "is missing"),
      "Any JSON without repeated names. It reaches receivers byte for byte.",
      { amount: "12.50", currency: "EUR" },
    ),
    id: note(
      z
        .string()
        .regex(/^[A-Za-z0-9][A-Za-z0-9_:-]{0,127}$/, ID)
        .optional(),
      "An id of your own, unique per key; made when left out.",
      "invoice-17",
    ),
    createdAt: note(
      z.iso.datetime({ offset: true, error: "must be an RFC 3339 date-time with an offset" }).optional(),
      "When it happened; the time of acceptance when left out.",
    ),
    headers: z.record(z.string(), z.string().max(MOST_HEADER_CHARS)).optional().meta({
      description: "Sent with its deliveries, as those of `POST /events`.",
      maxProperties: MOST_EVENT_HEADERS,
    }),
  })
  .meta({ id: "PublishRequest", description: "At most 64 KiB." });
export const acceptedByHand = z
  .strictObject({
    id: z.string(),
    type: z.string(),
    keyId: z.string(),
    createdAt: z.iso.datetime(),
    deliveries: note(z.int().min(0), "How many subscriptions it goes to."),
    duplicate: note(z.boolean(), "True: it was stored before, and is not sent again."),
  })
  .meta({ id: "PublishedEvent" });

export const eventOperations = (deps: ResourceDeps): readonly AnyOperation[] => [
  list(deps),
  show(deps),
  replayOne(deps),
  erase(deps),
  publish(deps),
];

const list = ({ history, subscriptionCache, cursors }: ResourceDeps) =>
  operation(`GET ${EVENTS}`, {
    id: "listEvents",
    summary: "List or search the events of a key, newest first; each page looks at a bounded number of them",
    portal: true,
    query: eventsQuery,
    reply: { status: 200, data: z.array(listedEvent), paged: true },
    async handle({ keyId, query: { cursor, limit = DEFAULT_LIMIT, ...filter } }) {
      const place = `events:${keyId}:${JSON.stringify(filter)}`;
      const after = cursors.read(cursor, place);
      const { items, next } = await history.events(keyId, filter, { after, limit });
      const only = items.flatMap(({ deliveries: all = [] }) => (all.length === 1 ? all : []));
      const ids = only.map(({ subscriptionId }) => subscriptionId);
      const names = await namesOf(subscriptionCache, keyId, ids);
      return {
        data: items.map((one) => listedView(one, names)),
        nextCursor: cursors.write(next, place),
        searchedTo: next === undefined ? undefined : ordinalTime(next),
      };
    },
  });

const show = ({ history, subscriptionCache, places }: ResourceDeps) =>
  operation(`GET ${EVENT}`, {
    id: "getEvent",
    summary: "Show an event with its data and its deliveries, a page of them",
    portal: true,
    query: pageQuery,
    reply: { status: 200, data: shownEvent, paged: true },
    async handle({ keyId, eventId, query: { cursor, limit = MAX_LIMIT } }) {
      const place = `event:${keyId}:${eventId}`;
      const from = Number(places.read(cursor, place) ?? 0);
      const found = await history.event(keyId, eventId, { from, limit });
      if (found === undefined) throw noSuch("event");
      const { event, damaged, deliveries, next } = found;
      const ids = deliveries.map(({ delivery }) => delivery.subscriptionId);
      const names = await namesOf(subscriptionCache, keyId, ids);
      const shown = JSON.stringify(deliveries.map((one) => deliveryView(one, names)));
      // The published bytes as they are: parsing and writing them again would change numbers, order and escapes.
      const data = damaged ? "null" : bodyData(event);
      return {
        text: `${JSON.stringify({ ...headView(found), headers: event.headers }).slice(0, -1)},"data":${data},"deliveries":${shown}}`,
        nextCursor: places.write(next?.toString(), place),
      };
    },
  });

const replayOne = (deps: ResourceDeps) =>
  operation(`POST ${EVENT}/replay`, {
    id: "replayEvent",
    summary: "Send an event again: its failed deliveries, or to one subscription",
    portal: true,
    body: replayBody,
    bodyOptional: true,
    reply: { status: 202, data: replayed },
    problems: ["NOT_REPLAYABLE", "PROVIDER_BACKPRESSURE", "CONFLICT"],
    async handle({ keyId, eventId, body, actor }) {
      // Whose deliveries the replay would send again, going by how they stand now.
      const ids: string[] = [];
      for await (const page of deps.history.everyDelivery(keyId, eventId)) {
        for (const one of page)
          if ((body.subscriptionId ?? one.subscriptionId) === one.subscriptionId && replayable(one, body))
            ids.push(one.subscriptionId);
      }
      refuseResting(deps, ids);
      const line = { action: "event.replayed", target: eventId, detail: body.subscriptionId } as const;
      const also = [auditChange(keyId, actor, deps.clock, line)];
      const deliveries = await deps.replay.event(keyId, eventId, { ...body, also });
      await probe(deps, ids);
      return { data: { deliveries } };
    },
  });

const erase = ({ eraseEvent, clock }: ResourceDeps) =>
  operation(`DELETE ${EVENT}`, {
    id: "deleteEvent",
    summary:
      "Erase an event with its data and deliveries, pending ones too: no attempt begins any more; its last bytes leave the files soon after",
    reply: { status: 204 },
    problems: ["CONFLICT"],
    async handle({ keyId, eventId, actor }) {
      const line = { action: "event.erased", target: eventId } as const;
      await eraseEvent(keyId, eventId, [auditChange(keyId, actor, clock, line)]);
    },
  });

/** Publishes for somebody who manages the key: it is in the audit trail, with its author. */
const publish = ({ publish: accept, storage, clock }: ResourceDeps) =>
  operation(`POST ${EVENTS}`, {
    id: "publishEventByHand",
    summary: "Publish an event by hand, as a manager of the key; a 202 means that it is stored",
    body: publishBody,
    reply: { status: 202, data: acceptedByHand },
    problems: ["IDEMPOTENCY_MISMATCH", "PROVIDER_BACKPRESSURE"],
    async handle({ keyId, text = "", actor, call: { requestId } }) {
      // The text as it was sent: a parsed value would not have the same bytes.
      const publications = [{ text, path: "", defaults: { keyId } }];
      const [event] = await accept({ publications, keys: [keyId], requestId, source: "api" }, (fresh) =>
        fresh.map(({ id, type }) =>
          auditChange(keyId, actor, clock, { action: "event.published", target: id, detail: type }),
        ),
      );
      return { status: 202, data: event, headers: { "Relay-Durability": storage.durability } };
    },
  });

const headView = ({ event, status, damaged }: Omit<EventSummary, "deliveries">): object => ({
  id: event.id,
  type: event.type,
  keyId: event.keyId,
  createdAt: isoTime(event.createdAt),
  acceptedAt: isoTime(event.acceptedAt),
  status,
  damaged: damaged ? true : undefined,
});

/** Returns the newest attempt that has ended, of all deliveries of one event. */
function lastOf(deliveries: readonly Delivery[]): object | undefined {
  const ended = deliveries.flatMap(({ subscriptionId, attempts }) =>
    attempts.slice(-1).map((attempt) => ({ subscriptionId, attempt })),
  );
  const last = ended.toSorted((a, b) => a.attempt.startedAt - b.attempt.startedAt).at(-1);
  if (last === undefined) return undefined;
  const { subscriptionId, attempt } = last;
  return { subscriptionId, at: isoTime(attempt.startedAt), statusCode: attempt.statusCode, error: attempt.error };
}

function countsOf(deliveries: readonly Delivery[]): object {
  const of = (wanted: Delivery["status"]): number => deliveries.filter(({ status }) => status === wanted).length;
  return { delivered: of("delivered"), failed: of("failed"), pending: of("pending"), total: deliveries.length };
}

/** Subscriptions that a list names for each event. */
const NAMED = 3;

/** Returns the event as a list shows it: where it went, and what was answered last. */
function listedView(summary: EventSummary, names: ReadonlyMap<string, string>): object {
  const { event, deliveries } = summary;
  return {
    ...headView(summary),
    recipients: deliveryCount(event),
    deliveryCounts: deliveries && countsOf(deliveries),
    subscriptionIds: deliveries?.slice(0, NAMED).map(({ subscriptionId }) => subscriptionId),
    subscriptionName: deliveries?.length === 1 ? names.get(deliveries[0]?.subscriptionId ?? "") : undefined,
    lastAttempt: lastOf(deliveries ?? []),
  };
}
