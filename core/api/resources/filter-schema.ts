/** The schema of a filter, which validates and documents it. Bounds that concern the whole of it are checked at its root. */
import { z } from "zod";
import { documented } from "./fields.ts";
import { FILTER_BOUNDS, namesOf, type Filter, type FilterPath } from "../../model/filter.ts";

const { bytes, depth, nodes, values, names, nameLength } = FILTER_BOUNDS;

/** The size of the whole filter bounds a text before its own length does. */
const text = z.string().max(bytes);
const number = z.number("must be a number").min(-Number.MAX_VALUE).max(Number.MAX_VALUE);
const value = z.union([text, number, z.boolean(), z.null()], { error: "must be text, a number, true, false or null" });
const bound = number.optional();

const pathFault = (path: FilterPath): string | undefined => {
  const all = namesOf(path);
  const [first] = all;
  if (first !== "data" && !(first === "type" && all.length === 1)) return "must be type, or begin with data";
  if (all.length > names) return `must have at most ${names} names`;
  if (all.some((name) => name.length > nameLength)) return `may have names of at most ${nameLength} characters`;
  if (typeof path === "string" && all.includes("")) return "has an empty name: give a list of names";
  return undefined;
};

const PATH_TEXT = `^(?:type|data(?:\\.[^.]{1,${nameLength}}){0,${names - 1}})$`;
const named = { type: "string", maxLength: nameLength };

/** A path, of a condition or of the value by which deliveries are ordered. */
export const path = z
  .union([text, z.array(text).min(1).max(nodes)], { error: 'must be text such as "data.amount", or a list of names' })
  .superRefine((given, ctx) => {
    const message = pathFault(given);
    if (message !== undefined) ctx.addIssue({ code: "custom", message });
  })
  .meta({
    id: "FilterPath",
    // For the documentation: `pathFault` decides.
    anyOf: [
      { type: "string", maxLength: names * (nameLength + 1), pattern: PATH_TEXT },
      {
        type: "array",
        items: named,
        minItems: 1,
        maxItems: names,
        ...documented({
          anyOf: [{ prefixItems: [{ const: "data" }] }, { prefixItems: [{ const: "type" }], maxItems: 1 }],
        }),
      },
    ],
    examples: ["data.amount", ["data", "amount.net"]],
    description:
      "`type`, or a path that begins with `data`. Text is split at dots; a list names keys that have dots themselves. An item of a list is named by its position.",
  });

const GROUPS = ["and", "or", "not"] as const;
const SINGLE = ["equals", "in", "exists", "prefix"] as const;
const RANGE = ["gt", "gte", "lt", "lte"] as const;

const needs = (...fields: readonly string[]) => ({ required: fields });
/** Which fields go together, for the documentation: `partFault` decides. */
const TOGETHER = [
  ...GROUPS.map((name) => ({ ...needs(name), maxProperties: 1 })),
  ...SINGLE.map((name) => ({ ...needs("path", name), maxProperties: 2 })),
  {
    ...needs("path"),
    minProperties: 2,
    propertyNames: { enum: ["path", ...RANGE] },
    not: { anyOf: [needs("gt", "gte"), needs("lt", "lte")] },
  },
];

/** Returns what is wrong with the fields that a part of a filter has together. */
function partFault(part: Filter): string | undefined {
  const has = (name: keyof Filter): boolean => part[name] !== undefined;
  const groups = GROUPS.filter(has);
  const compares = [...SINGLE.filter(has), ...(RANGE.some(has) ? ["a range"] : [])];
  if (groups.length + compares.length === 0)
    return "must have one of: and, or, not, equals, in, exists, prefix, gt, gte, lt, lte";
  if (groups.length + compares.length > 1) return `has ${[...groups, ...compares].join(" and ")}: give one of them`;
  if (groups.length === 1) return has("path") ? "is a group, which has no path" : undefined;
  if (!has("path")) return "needs a path";
  if (has("gt") && has("gte")) return "has gt and gte: give one of them";
  return has("lt") && has("lte") ? "has lt and lte: give one of them" : undefined;
}

const parts = z
  .array(z.lazy(() => part))
  .min(1)
  .max(nodes - 1);
const part: z.ZodType<Filter> = z
  .strictObject({
    and: parts.optional(),
    or: parts.optional(),
    not: z.lazy(() => part).optional(),
    path: path.optional(),
    equals: value.optional(),
    in: z.array(value).min(1).max(values).optional(),
    exists: z.boolean().optional(),
    prefix: text.min(1).optional(),
    gt: bound,
    gte: bound,
    lt: bound,
    lte: bound,
  })
  .superRefine((given, ctx) => {
    const message = partFault(given);
    if (message !== undefined) ctx.addIssue({ code: "custom", message });
  })
  .meta({
    id: "Filter",
    ...documented({ oneOf: TOGETHER }),
    description: `Conditions on the type and the data of an event. Either a group (\`and\`, \`or\`, \`not\`), or a \`path\` with one of \`equals\`, \`in\`, \`exists\` and \`prefix\`, or with a range of numbers. At most ${depth} levels, ${nodes} parts and ${bytes} bytes of JSON.`,
    examples: [{ path: "data.amount", gte: 100 }],
  });

/** Returns how deep a filter nests and how many parts it has. */
function sizeOf({ and, or, not }: Filter): { readonly depth: number; readonly nodes: number } {
  const inner = [...(and ?? []), ...(or ?? []), ...(not === undefined ? [] : [not])].map(sizeOf);
  return {
    depth: 1 + Math.max(0, ...inner.map((one) => one.depth)),
    nodes: inner.reduce((sum, one) => sum + one.nodes, 1),
  };
}

// Not `part.superRefine`: that copies the part, and the document would have both.
export const filter = z
  .lazy(() => part)
  .superRefine((given, ctx) => {
    const size = sizeOf(given);
    const say = (message: string): void => ctx.addIssue({ code: "custom", message });
    if (size.depth > depth) say(`must nest at most ${depth} levels deep`);
    if (size.nodes > nodes) say(`must have at most ${nodes} parts`);
    if (new TextEncoder().encode(JSON.stringify(given)).length > bytes) say(`must be at most ${bytes} bytes of JSON`);
  });

export const shownFilter = part;
