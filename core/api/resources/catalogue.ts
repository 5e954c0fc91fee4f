/** Lists what there is to choose from: the keys of a token, and the names of events. */
import { z } from "zod";
import { API_KEY, KEY_TYPE, TYPE } from "../../model/schema.ts";
import type { EventType, EventTypes } from "../../model/event-type.ts";
import { isEventName, isKeyId } from "../../model/names.ts";
import type { Keys } from "../../ports/plugin.ts";
import type { Storage } from "../../ports/storage.ts";
import { notFound } from "../http/checks.ts";
import { createCursors } from "../http/cursor.ts";
import { type AnyOperation, operation } from "../http/operation.ts";
import { DEFAULT_LIMIT, keysQuery, MAX_WITH_FIGURES, pageQuery } from "./schemas.ts";
import type { StatsSource } from "./stats.ts";
import { apiKey, eventType, eventTypeDetail, transformName } from "./shapes.ts";

const tag = "Catalogue";

export function catalogueOperations(deps: {
  readonly storage: Pick<Storage, "getMany" | "range">;
  readonly keys: Pick<Keys, "seal" | "open">;
  /** Names of the transforms. */
  readonly transforms?: (() => readonly string[]) | undefined;
  /** What the config says of the types now, by name. */
  readonly types?: (() => EventTypes | undefined) | undefined;
  readonly figures?: StatsSource | undefined;
  /** The catalogue as it is now. */
  readonly events?: (() => readonly string[] | undefined) | undefined;
}): readonly AnyOperation[] {
  const { storage, events } = deps;
  const keyCursors = createCursors(deps.keys, isKeyId);
  const typeCursors = createCursors(deps.keys, isEventName);

  /** Keys of the token that are in use, from `after` on, one more than asked for. */
  async function keysInUse(owned: readonly string[] | "*", after: string | undefined, most: number): Promise<string[]> {
    if (owned === "*") {
      const rows = await storage.range(API_KEY.start, { after: after && API_KEY.key({ keyId: after }), limit: most });
      return rows.map(({ key }) => API_KEY.id(key).keyId);
    }
    const wanted = [...new Set(owned.filter(isKeyId))].toSorted().filter((id) => after === undefined || id > after);
    const found = await storage.getMany(wanted.map((keyId) => API_KEY.key({ keyId })));
    return wanted.filter((_, i) => found[i] !== undefined).slice(0, most);
  }

  /** Names used on keys of the token, from `after` on: of each key as many as are asked for, so that none is passed over. */
  async function namesInUse(owned: readonly string[] | "*", after: string | undefined, limit: number) {
    const names = new Set<string>();
    // One after the other: a token may own a thousand keys.
    for (const keyOf of keysOf(owned)) {
      const rows = await storage.range(keyOf(""), { after: after && keyOf(after), limit });
      for (const { key } of rows) names.add((owned === "*" ? TYPE : KEY_TYPE).id(key).name);
    }
    return names;
  }

  /** Whether a name that the catalogue does not have is used on a key of the token. */
  async function isUsed(owned: readonly string[] | "*", name: string): Promise<boolean> {
    if (!isEventName(name)) return false;
    const wanted = keysOf(owned).map((keyOf) => keyOf(name));
    return (await storage.getMany(wanted)).some((row) => row !== undefined);
  }

  return [
    operation({
      method: "GET",
      path: "/event-types/{eventType}",
      summary: "Show an event type: its schema, and an example",
      tag,
      portal: true,
      reply: { status: 200, data: eventTypeDetail },
      async handle({ principal, params }) {
        const name = params["eventType"] ?? "";
        const type = typeOf(name, deps.types?.());
        if (type === undefined && events?.()?.includes(name) !== true && !(await isUsed(principal.keys, name)))
          throw notFound();
        const { schema, example } = type ?? {};
        const more = { ...(schema !== undefined && { schema }), ...(example !== undefined && { example }) };
        return { data: { ...describe(name, type), ...more } };
      },
    }),
    operation({
      method: "GET",
      path: "/transforms",
      summary: "List the transforms that a subscription may name",
      tag,
      portal: true,
      reply: { status: 200, data: z.array(transformName) },
      handle: async () => ({ data: (deps.transforms?.() ?? []).map((name) => ({ name })) }),
    }),
    operation({
      method: "GET",
      path: "/api-keys",
      summary: "List the keys that the token owns and that are in use, with their figures where a range is given",
      tag,
      portal: true,
      query: keysQuery,
      reply: { status: 200, data: z.array(apiKey), paged: true },
      async handle({ principal, query: { cursor, range, limit: asked = DEFAULT_LIMIT } }) {
        const limit = range === undefined ? asked : Math.min(asked, MAX_WITH_FIGURES);
        const list = `api-keys:${principal.sub}`;
        const ids = await keysInUse(principal.keys, keyCursors.read(cursor, list), limit + 1);
        const page = ids.slice(0, limit);
        const next = ids.length > limit ? page.at(-1) : undefined;
        const sums = range === undefined ? undefined : deps.figures?.sums;
        const data: object[] = [];
        // One after the other: each reads the rows of a day or a week.
        for (const id of page)
          data.push(sums === undefined || range === undefined ? { id } : { id, figures: await sums(id, range) });
        return { data, nextCursor: keyCursors.write(next, list) };
      },
    }),
    operation({
      method: "GET",
      path: "/event-types",
      summary: "List the names of events: those of the catalogue and those used on keys that the token owns",
      tag,
      portal: true,
      query: pageQuery,
      reply: { status: 200, data: z.array(eventType), paged: true },
      async handle({ principal, query: { cursor, limit = DEFAULT_LIMIT } }) {
        const list = `event-types:${principal.sub}`;
        const after = typeCursors.read(cursor, list);
        const used = await namesInUse(principal.keys, after, limit + 1);
        const all = [...new Set([...(events?.() ?? []), ...used])].map((name) => ({ name, place: TYPE.key({ name }) }));
        // In key order, which the pages follow.
        const names = all
          .filter(({ place }) => after === undefined || place > TYPE.key({ name: after }))
          .toSorted((a, b) => (a.place < b.place ? -1 : 1));
        const page = names.slice(0, limit).map(({ name }) => name);
        const next = names.length > limit ? page.at(-1) : undefined;
        const types = deps.types?.();
        return { data: page.map((name) => headOf(name, types)), nextCursor: typeCursors.write(next, list) };
      },
    }),
  ];
}

const typeOf = (name: string, types: EventTypes | undefined): EventType | undefined =>
  types !== undefined && Object.hasOwn(types, name) ? types[name] : undefined;

const describe = (name: string, { schema, description, deprecated, validate }: Partial<EventType> = {}) => ({
  name,
  ...(description !== undefined && { description }),
  ...(deprecated === true && { deprecated }),
  ...(schema !== undefined && { validate }),
});

function headOf(name: string, types: EventTypes | undefined) {
  const type = typeOf(name, types);
  return { ...describe(name, type), ...(type?.example !== undefined && { hasExample: true }) };
}

/** Returns for each key of the token, or for all at once, how the key of an event type's row is made. */
const keysOf = (owned: readonly string[] | "*"): readonly ((name: string) => string)[] =>
  owned === "*"
    ? [(name) => TYPE.key({ name })]
    : [...new Set(owned.filter(isKeyId))].map((keyId) => (name: string) => KEY_TYPE.key({ keyId, name }));
