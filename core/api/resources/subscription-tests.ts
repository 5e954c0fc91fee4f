/** Tests of a subscription: a test event that is sent once, and a filter or transform tried on an event, which sends nothing. */
import { z } from "zod";
import { bodyData, type RelayEvent } from "../../model/event.ts";
import type { EventTypes } from "../../model/event-type.ts";
import { type FilteredEvent, reportFilter } from "../../model/filter.ts";
import { invalidFields, noSuch, Problem } from "../../model/problem.ts";
import { wants } from "../../model/subscription.ts";
import type { Storage } from "../../ports/storage.ts";
import { auditChange } from "../../records/audit-trail.ts";
import { locateEvent } from "../../records/find-event.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import { attempt as shownAttempt, attemptView } from "./attempts.ts";
import type { ResourceDeps } from "./deps.ts";
import { documented, note } from "./fields.ts";
import { filter, shownFilter } from "./filter-schema.ts";
import { findReadable, WEBHOOK } from "./subscriptions.ts";

const operation = operationsOf("Subscriptions");

/** The stored record of the subscription is damaged. */
const problems = ["CONFLICT"] as const;

/** In words of its own, which name no address. */
const AWAY = "the connection that the URL names is away: deliveries wait until it is back";

const pingBody = z
  .strictObject({
    type: note(
      z.string().min(1).max(128).optional(),
      "An event type whose example is sent. Without it `relay:ping` is sent.",
      "deposit:paid",
    ),
  })
  .meta({ id: "TestEventRequest" });

/** The event that a filter or a transform is tested on: a stored one of the key, or one in the request. */
const tested = {
  eventId: note(z.string().max(128).optional(), "A stored event of the key."),
  event: note(
    z
      .strictObject({
        type: z.string().min(1).max(128),
        data: z.unknown().refine((data) => data !== undefined, "is missing"),
      })
      .optional(),
    "An event that is not stored.",
  ),
} as const;
const isOneEvent = ({ eventId, event }: { readonly eventId?: unknown; readonly event?: unknown }): boolean =>
  (eventId === undefined) !== (event === undefined);
const NOT_ONE_EVENT = { path: ["eventId"], message: "give either eventId or event" };
/** The same for the documentation. */
const ONE_EVENT = documented({ oneOf: [{ required: ["eventId"] }, { required: ["event"] }] });

const filterBody = z
  .strictObject({
    ...tested,
    filter: note(filter.nullable().optional(), "Judged in place of the stored filter; `null` stands for none."),
  })
  .refine(isOneEvent, NOT_ONE_EVENT)
  .meta({ id: "FilterTestRequest", ...ONE_EVENT });
const condition = z
  .strictObject({
    at: z.string().meta({ examples: ["filter.and[1]"], description: "Where the condition stands in the filter." }),
    condition: shownFilter,
    matched: z.boolean(),
    decided: note(z.boolean(), "Whether the outcome of the filter follows from this condition."),
    found: z.string().meta({
      examples: ['"EUR"', "missing"],
      description: "The JSON of the value at the path, cut off when long; or `missing`, `a list`, `an object`.",
    }),
  })
  .meta({ id: "FilterCondition" });
export const filterTested = z
  .strictObject({
    matched: note(z.boolean(), "Whether the subscription would get the event: both of the following."),
    typeMatched: note(z.boolean(), "Whether one of the subscription's event names matches."),
    filterMatched: note(z.boolean(), "Whether the filter matches; true when there is none."),
    type: z.string(),
    filter: note(shownFilter.nullable(), "The filter that was judged."),
    conditions: z.array(condition),
  })
  .meta({ id: "FilterTest" });

const transformBody = z
  .strictObject({
    ...tested,
    transform: note(
      z.string().max(64).nullable().optional(),
      "Run in place of the subscription's own; `null` stands for none.",
    ),
  })
  .refine(isOneEvent, NOT_ONE_EVENT)
  .meta({ id: "TransformTestRequest", ...ONE_EVENT });
export const transformTested = z
  .strictObject({
    transform: note(z.string().nullable(), "The transform that was run; null when there is none."),
    made: note(z.boolean(), "Whether there is a body to send."),
    body: note(z.string().nullable(), "The body as it would be sent and signed; null when there is none."),
    error: note(
      z.string().nullable(),
      "Why there is none, as `detail` of an attempt says it.",
      "slack threw Error: no",
    ),
  })
  .meta({ id: "TransformTest" });

export const testOperations = (deps: ResourceDeps): readonly AnyOperation[] => [
  testEvent(deps),
  testFilter(deps),
  testTransform(deps),
];

const testEvent = ({ ping, types, subscriptionCache, storage, clock }: ResourceDeps) =>
  operation(`POST ${WEBHOOK}/test`, {
    id: "testSubscription",
    summary: "Send a test event now, once",
    portal: true,
    body: pingBody,
    bodyOptional: true,
    reply: { status: 200, data: shownAttempt },
    problems,
    async handle({ keyId, subscriptionId, actor, call, body: { type } }) {
      const subscription = await findReadable(subscriptionCache, keyId, subscriptionId);
      const example = type === undefined ? undefined : exampleOf(type, types() ?? {});
      const detail = type === undefined ? {} : { detail: `example of ${type}` };
      const line = { action: "subscription.tested", target: subscription.id, ...detail } as const;
      await storage.commit([auditChange(keyId, actor, clock, line)]);
      const { ordinal, attempt, away } = await ping(subscription, call.signal, example);
      const view = attemptView({ ordinal, subscriptionId: subscription.id }, attempt);
      return { data: away ? { ...view, detail: AWAY } : view };
    },
  });

const testFilter = ({ subscriptionCache, storage }: ResourceDeps) =>
  operation(`POST ${WEBHOOK}/filter/test`, {
    id: "testFilter",
    summary: "Test a filter on an event: whether it matches, and why",
    portal: true,
    access: "read",
    body: filterBody,
    reply: { status: 200, data: filterTested },
    problems,
    async handle({ keyId, subscriptionId, body: asked }) {
      const subscription = await findReadable(subscriptionCache, keyId, subscriptionId);
      const event = asked.event ?? parsedEvent(await storedEvent(storage, keyId, asked.eventId ?? ""));
      const { type } = event;
      const judged = asked.filter === undefined ? subscription.filter : (asked.filter ?? undefined);
      const { matched: filterMatched, conditions } =
        judged === undefined ? { matched: true, conditions: [] } : reportFilter(judged, event);
      const typeMatched = wants(subscription, type);
      const matched = filterMatched && typeMatched;
      return { data: { matched, typeMatched, filterMatched, type, filter: judged ?? null, conditions } };
    },
  });

const testTransform = ({ preview, subscriptionCache, storage }: ResourceDeps) =>
  operation(`POST ${WEBHOOK}/transform/test`, {
    id: "testTransform",
    summary: "Test a transform on an event: the body that it makes, or why it makes none",
    portal: true,
    access: "read",
    body: transformBody,
    reply: { status: 200, data: transformTested },
    problems,
    async handle({ keyId, subscriptionId, call, body: asked }) {
      const subscription = await findReadable(subscriptionCache, keyId, subscriptionId);
      const event = asked.event ?? (await storedEvent(storage, keyId, asked.eventId ?? ""));
      const transform = asked.transform === undefined ? subscription.transform : (asked.transform ?? undefined);
      const made = await preview({ ...subscription, transform }, event, call.signal);
      const [text, error] = "body" in made ? [made.body, null] : [null, made.error];
      return { data: { transform: transform ?? null, made: text !== null, body: text, error } };
    },
  });

/** @throws Problem VALIDATION_FAILED for a type without an example */
function exampleOf(type: string, types: EventTypes): { readonly type: string; readonly data: unknown } {
  const data = Object.hasOwn(types, type) ? types[type]?.example : undefined;
  if (data !== undefined) return { type, data };
  throw invalidFields([{ path: "type", message: "names no event type that has an example" }]);
}

const parsedEvent = (event: RelayEvent): FilteredEvent => ({ type: event.type, data: JSON.parse(bodyData(event)) });

/** @throws Problem NOT_FOUND; VALIDATION_FAILED when its record is damaged */
async function storedEvent(
  storage: Pick<Storage, "getItem" | "getMany">,
  keyId: string,
  id: string,
): Promise<RelayEvent> {
  const located = await locateEvent(storage, keyId, id);
  if (located === undefined) throw noSuch("event");
  if (!located.damaged) return located.event;
  const errors = [{ path: "eventId", message: "names an event whose stored record is damaged" }];
  throw new Problem("VALIDATION_FAILED", "Choose another event.", { errors });
}
