// The document refuses what the relay refuses, and takes what it takes: filters, schedules, secrets, tests of an event.
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openApiDocument } from "../../core/api/reference/openapi.ts";
import { HOOK, LIST, serve } from "./serve.ts";
import type { Served } from "./serve.ts";

let api: Served;
let ajv: Ajv2020;
let names: readonly string[];
let id: string;
beforeAll(async () => {
  api = await serve();
  const { components } = openApiDocument({ operations: api.operations, routes: [], version: "1" }) as unknown as {
    readonly components: { readonly schemas: Record<string, object> };
  };
  names = Object.keys(components.schemas);
  ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema({ $id: "https://relay.example/", components });
  id = String((await api.ask("POST", LIST, { body: HOOK })).json.data?.["id"]);
});
afterAll(() => api[Symbol.asyncDispose]());

const described = (name: string, value: unknown): boolean =>
  ajv.validate({ $ref: `https://relay.example/#/components/schemas/${name}` }, value);

const there = { path: "data.a", exists: true };
const nested = (levels: number): object => (levels === 0 ? there : { not: nested(levels - 1) });
const FILTERS: readonly unknown[] = [
  there,
  {},
  [],
  "data",
  { path: "data.a" },
  { equals: 1 },
  { path: "type", prefix: "a" },
  { path: "type.a", exists: true },
  { path: "data", exists: true },
  { path: "dat", exists: true },
  { path: "data..a", exists: true },
  { path: "data.", exists: true },
  { path: "", exists: true },
  { path: `data${".a".repeat(15)}`, exists: true },
  { path: `data${".a".repeat(16)}`, exists: true },
  { path: `data.${"n".repeat(128)}`, exists: true },
  { path: `data.${"n".repeat(129)}`, exists: true },
  { path: ["data"], exists: true },
  { path: ["type"], exists: true },
  { path: ["type", "a"], exists: true },
  { path: ["data", "", "a.b"], exists: true },
  { path: ["a"], exists: true },
  { path: [], exists: true },
  { path: ["data", ...Array.from({ length: 15 }, () => "a")], exists: true },
  { path: ["data", ...Array.from({ length: 16 }, () => "a")], exists: true },
  { path: ["data", "n".repeat(129)], exists: true },
  { path: "data.a", equals: null },
  { path: "data.a", equals: {} },
  { path: "data.a", equals: [] },
  { path: "data.a", in: [] },
  { path: "data.a", in: [1, "a", null, true] },
  { path: "data.a", in: Array.from({ length: 101 }, (_, i) => i) },
  { path: "data.a", prefix: "" },
  { path: "data.a", gt: 1 },
  { path: "data.a", gt: "1" },
  { path: "data.a", gt: 1, lte: 2 },
  { path: "data.a", gt: 1, gte: 2 },
  { path: "data.a", lt: 1, lte: 2 },
  { path: "data.a", gt: 1, equals: 2 },
  { path: "data.a", equals: 1, exists: true },
  { and: [] },
  { and: [there] },
  { and: [there], or: [there] },
  { and: [there], path: "data.a" },
  { not: there, path: "data.a", equals: 1 },
  { not: {} },
  { or: Array.from({ length: 63 }, () => there) },
  { or: Array.from({ length: 64 }, () => there) },
  nested(7),
  { and: [there], more: 1 },
];

it.each(FILTERS)("a filter: %j", async (filter) => {
  const { status } = await api.ask("PATCH", `${LIST}/${id}`, { body: { filter } });
  expect([described("Filter", filter), described("SubscriptionUpdate", { filter })]).toEqual([
    status === 200,
    status === 200,
  ]);
});

const secretOf = (bytes: number): string =>
  `whsec_${Buffer.from(Array.from({ length: bytes }, (_, i) => i)).toString("base64")}`;
it.each<Readonly<Record<string, unknown>>>([
  { orderBy: "data.a", ordered: true },
  { orderBy: "a", ordered: true },
  { orderBy: ["data", ...Array.from({ length: 16 }, () => "a")], ordered: true },
  { retry: { delaysMs: [10] } },
  { retry: { delaysMs: [] } },
  { retry: { delaysMs: [10, 10, 10, 10, 10] } },
  { retry: { delaysMs: [9] } },
  { retry: { delaysMs: [10], factor: 2 } },
  { retry: { factor: 2 } },
  { retry: {} },
  { secret: secretOf(23) },
  { secret: secretOf(24) },
  { secret: secretOf(64) },
  { secret: secretOf(65) },
])("a new subscription with %j", async (field) => {
  const body = { ...HOOK, ...field };
  const { status } = await api.ask("POST", LIST, { body });
  expect(described("SubscriptionCreate", body)).toBe(status === 201);
});

it.each(["filter", "transform"])("a test of a %s takes a stored event or one in the request", async (kind) => {
  const event = { type: "a", data: 1 };
  for (const body of [{}, { eventId: "evt_1", event }, { event }, { event: { type: "a" } }, { event: { data: 1 } }]) {
    const { status } = await api.ask("POST", `${LIST}/${id}/filter/test`, { body });
    const name = kind === "filter" ? "FilterTestRequest" : "TransformTestRequest";
    expect([body, described(name, body)]).toEqual([body, status === 200]);
  }
});

it("names each schema once, in words", () => {
  expect(names.filter((name) => !/^[A-Z][A-Za-z]+$/.test(name))).toEqual([]);
});
