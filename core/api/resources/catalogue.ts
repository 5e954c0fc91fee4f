/** Lists what there is to choose from: the keys of a token, the names of events, transforms. And erases a key. */
import { z } from "zod";
import { isoTime } from "../../lib/time.ts";
import type { EventType, EventTypes } from "../../model/event-type.ts";
import { isEventName, isKeyId } from "../../model/names.ts";
import { API_KEY, KEY_TYPE, TYPE } from "../../model/schema.ts";
import type { Storage } from "../../ports/storage.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import { notFound } from "../http/stations.ts";
import type { ResourceDeps } from "./deps.ts";
import { note } from "./fields.ts";
import { createCursors, DEFAULT_LIMIT, pageQuery, paging } from "./lists.ts";
import { latency, range, sums } from "./stats.ts";

const operation = operationsOf("Catalogue");

/** Keys that one page lists with figures: each costs a read of its own. */
const MAX_WITH_FIGURES = 50;

const keysQuery = z.strictObject({
  range: note(range.optional(), "With the figures of each key over this time, at most 50 keys a page."),
  ...paging,
});
export const apiKey = z
  .strictObject({ id: z.string(), figures: z.strictObject({ ...sums, ...latency }).optional() })
  .meta({ id: "ApiKey" });
const typeHead = {
  name: z.string(),
  description: z.string().optional(),
  deprecated: note(z.literal(true).optional(), "Do not begin to use it."),
  validate: note(
    z.enum(["off", "warn", "refuse"]).optional(),
    "What is done with an event whose data does not match the schema. Left out where there is no schema.",
  ),
};
export const eventType = z
  .strictObject({
    ...typeHead,
    hasExample: note(z.literal(true).optional(), "A test event may be its example."),
  })
  .meta({ id: "EventType" });
export const eventTypeDetail = z
  .strictObject({
    ...typeHead,
    schema: note(z.unknown().optional(), "What `data` must be: JSON Schema 2020-12."),
    example: note(z.unknown().optional(), "A `data` that matches the schema."),
  })
  .meta({ id: "EventTypeDetail" });
const begun = z
  .strictObject({
    id: note(z.string(), "The API key."),
    startedAt: note(z.string(), "When the erasure that is under way began."),
  })
  .meta({ id: "KeyErasure" });

export const catalogueOperations = (deps: ResourceDeps): readonly AnyOperation[] => [
  showType(deps),
  operation("GET /transforms", {
    id: "listTransforms",
    summary: "List the transforms that a subscription may name",
    portal: true,
    reply: { status: 200, data: z.array(z.strictObject({ name: z.string() }).meta({ id: "Transform" })) },
    handle: () => ({ data: deps.transforms().map((name) => ({ name })) }),
  }),
  listKeys(deps),
  listTypes(deps),
  eraseKey(deps),
];

const showType = ({ storage, types, events }: ResourceDeps) =>
  operation("GET /event-types/{eventType}", {
    id: "getEventType",
    summary: "Show an event type: its schema, and an example",
    portal: true,
    reply: { status: 200, data: eventTypeDetail },
    async handle({ principal, params }) {
      const name = params["eventType"] ?? "";
      const type = typeOf(name, types());
      const known = type !== undefined || events()?.includes(name) === true;
      if (!known && !(await isUsed(storage, principal.keys, name))) throw notFound();
      return { data: { ...headOf(name, type), schema: type?.schema, example: type?.example } };
    },
  });

const listKeys = ({ storage, keys, figures }: ResourceDeps) => {
  const cursors = createCursors(keys, isKeyId);
  return operation("GET /api-keys", {
    id: "listApiKeys",
    summary: "List the keys that the token owns and that are in use, with their figures where a range is given",
    portal: true,
    query: keysQuery,
    reply: { status: 200, data: z.array(apiKey), paged: true },
    async handle({ principal, query: { cursor, range: over, limit: asked = DEFAULT_LIMIT } }) {
      const limit = over === undefined ? asked : Math.min(asked, MAX_WITH_FIGURES);
      const list = `api-keys:${principal.sub}`;
      const ids = await keysInUse(storage, principal.keys, cursors.read(cursor, list), limit + 1);
      const page = ids.slice(0, limit);
      const next = ids.length > limit ? page.at(-1) : undefined;
      const data: object[] = [];
      // One after the other: each reads the rows of a day or a week.
      for (const id of page) data.push({ id, figures: over === undefined ? undefined : await figures.sums(id, over) });
      return { data, nextCursor: cursors.write(next, list) };
    },
  });
};

const listTypes = ({ storage, keys, types, events }: ResourceDeps) => {
  const cursors = createCursors(keys, isEventName);
  return operation("GET /event-types", {
    id: "listEventTypes",
    summary: "List the names of events: those of the catalogue and those used on keys that the token owns",
    portal: true,
    query: pageQuery,
    reply: { status: 200, data: z.array(eventType), paged: true },
    async handle({ principal, query: { cursor, limit = DEFAULT_LIMIT } }) {
      const list = `event-types:${principal.sub}`;
      const after = cursors.read(cursor, list);
      const used = await namesInUse(storage, principal.keys, after, limit + 1);
      const all = [...new Set([...(events() ?? []), ...used])].map((name) => ({ name, place: TYPE.key({ name }) }));
      // In key order, which the pages follow.
      const names = all
        .filter(({ place }) => after === undefined || place > TYPE.key({ name: after }))
        .toSorted((a, b) => (a.place < b.place ? -1 : 1));
      const page = names.slice(0, limit).map(({ name }) => name);
      const next = names.length > limit ? page.at(-1) : undefined;
      const known = types();
      const data = page.map((name) => {
        const type = typeOf(name, known);
        return { ...headOf(name, type), hasExample: type?.example === undefined ? undefined : true };
      });
      return { data, nextCursor: cursors.write(next, list) };
    },
  });
};

const eraseKey = ({ storage, eraseKey: erase }: ResourceDeps) =>
  operation("DELETE /api-keys/{keyId}", {
    id: "deleteApiKey",
    summary: "Erase a key with its subscriptions, events and deliveries; asks for a fresh second factor",
    stepUp: "key.erased",
    reply: { status: 202, data: begun },
    problems: ["STEP_UP_REQUIRED"],
    async handle({ keyId, actor }) {
      if ((await storage.getItem(API_KEY.key({ keyId }))) === undefined) throw notFound();
      return { data: { id: keyId, startedAt: isoTime(await erase(keyId, actor)) } };
    },
  });

const typeOf = (name: string, types: EventTypes | undefined): EventType | undefined =>
  types !== undefined && Object.hasOwn(types, name) ? types[name] : undefined;

const headOf = (name: string, type: EventType | undefined) => ({
  name,
  description: type?.description,
  deprecated: type?.deprecated === true ? true : undefined,
  validate: type?.schema === undefined ? undefined : type.validate,
});

type Owned = readonly string[] | "*";

/** Returns keys of the token that are in use, from `after` on. */
async function keysInUse(
  storage: Pick<Storage, "getMany" | "range">,
  owned: Owned,
  after: string | undefined,
  most: number,
): Promise<readonly string[]> {
  if (owned === "*") {
    const rows = await storage.range(API_KEY.start, { after: after && API_KEY.key({ keyId: after }), limit: most });
    return rows.map(({ key }) => API_KEY.id(key).keyId);
  }
  const wanted = [...new Set(owned.filter(isKeyId))].toSorted().filter((id) => after === undefined || id > after);
  const found = await storage.getMany(wanted.map((keyId) => API_KEY.key({ keyId })));
  return wanted.filter((_, i) => found[i] !== undefined).slice(0, most);
}

/** Returns names used on keys of the token, from `after` on: of each key as many as are asked for, so that none is passed over. */
async function namesInUse(
  storage: Pick<Storage, "range">,
  owned: Owned,
  after: string | undefined,
  limit: number,
): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  // One after the other: a token may own a thousand keys.
  for (const keyOf of keysOf(owned)) {
    const rows = await storage.range(keyOf(""), { after: after && keyOf(after), limit });
    for (const { key } of rows) names.add((owned === "*" ? TYPE : KEY_TYPE).id(key).name);
  }
  return names;
}

/** Returns true when a name that the catalogue does not have is used on a key of the token. */
async function isUsed(storage: Pick<Storage, "getMany">, owned: Owned, name: string): Promise<boolean> {
  if (!isEventName(name)) return false;
  return (await storage.getMany(keysOf(owned).map((keyOf) => keyOf(name)))).some((row) => row !== undefined);
}

/** Returns for each key of the token, or for all at once, how the key of an event type's row is made. */
const keysOf = (owned: Owned): readonly ((name: string) => string)[] =>
  owned === "*"
    ? [(name) => TYPE.key({ name })]
    : [...new Set(owned.filter(isKeyId))].map((keyId) => (name: string) => KEY_TYPE.key({ keyId, name }));
