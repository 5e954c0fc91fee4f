// The document says of inputs and of deliveries what the relay does: every input is bounded, and a delivery fits.
import { tmpdir } from "node:os";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openApiDocument } from "../../core/api/reference/openapi.ts";
import { deliveredEvent, deliveredHeaders } from "../../core/api/reference/webhooks.ts";
import { deliveryBody } from "../../core/model/event.ts";
import type { Auth } from "../../core/ports/auth.ts";
import { makeKeys } from "../../core/runtime/keys/keyring.ts";
import { signedHeaders } from "../../core/signing/headers.ts";
import { newSecret, signingKey } from "../../core/signing/secret.ts";
import { openAccounts } from "../../plugins/auth/accounts/open.ts";
import { context } from "../support/context.ts";
import { LIST, serve } from "./serve.ts";
import type { Served } from "./serve.ts";
import type { Schema } from "./schema.ts";
import { startThrough } from "./through.ts";
import type { Through } from "./through.ts";

interface Item {
  readonly parameters: readonly { readonly name: string; readonly in: string; readonly schema: Schema }[];
  readonly requestBody?: { readonly content: Record<string, { readonly schema?: Schema }> };
}

let api: Served;
let through: Through;
let auth: Auth;
let folder: string;
let document: {
  readonly paths: Record<string, Record<string, Item>>;
  readonly webhooks: { readonly event: { readonly post: Item } };
  readonly components: { readonly schemas: Record<string, Schema> };
};
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "relay-bounds-"));
  const key = (byte: number): string => Buffer.alloc(32, byte).toString("base64");
  const keys = makeKeys({ master: key(1), signing: key(2), publishToken: "t" });
  auth = await openAccounts(context({ keys, dataDir: folder }), { tokenMs: 1_000, sessionMs: 1_000 });
  through = await startThrough();
  api = await serve();
  const routes = [...api.routes, ...(auth.routes ?? []), ...through.routes];
  document = openApiDocument({ operations: api.operations, routes, version: "1" }) as never;
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await through[Symbol.asyncDispose]();
  await auth.dispose?.();
  await rm(folder, { recursive: true, force: true });
});

/** Places in a schema where a value of any size would fit. What has no type is any JSON, and bounded by the body alone. */
function unbounded(schema: Schema, path: string, within: readonly unknown[] = []): readonly string[] {
  const { $ref, anyOf, items, properties, additionalProperties: more } = schema as Record<string, never>;
  if ($ref !== undefined) {
    // A schema that contains itself is judged once.
    if (within.includes($ref)) return [];
    const meant = document.components.schemas[String($ref).split("/").at(-1) as string] as Schema;
    return unbounded(meant, path, [...within, $ref]);
  }
  if (anyOf !== undefined) return (anyOf as Schema[]).flatMap((one) => unbounded(one, path, within));
  const has = (...names: string[]): boolean => names.some((name) => schema[name] !== undefined);
  const lacks = (bound: boolean): readonly string[] => (bound ? [] : [path]);
  switch (schema["type"]) {
    case "string":
      return lacks(
        has("maxLength", "enum", "const", "format") || /\{\d+,\d+\}|^\^\[1-9\]/.test(String(schema["pattern"])),
      );
    case "integer":
    case "number":
      return lacks(has("minimum") && has("maximum"));
    case "array":
      return [...lacks(has("maxItems")), ...unbounded(items as unknown as Schema, `${path}[]`, within)];
    case "object":
      return [
        ...Object.entries(properties ?? {}).flatMap(([name, one]) =>
          unbounded(one as Schema, `${path}.${name}`, within),
        ),
        ...(typeof more === "object" ? [...lacks(has("maxProperties")), ...unbounded(more, `${path}.*`, within)] : []),
      ];
    default:
      return [];
  }
}

describe("inputs in the document", () => {
  it("are all bounded, wherever the relay bounds them by more than the size of head and body", () => {
    const found = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.entries(item).flatMap(([method, one]) => [
        ...one.parameters
          .filter(({ in: where }) => where === "query")
          .flatMap(({ name, schema }) => unbounded(schema, `${method} ${path} ${name}`)),
        ...unbounded(one.requestBody?.content["application/json"]?.schema ?? {}, `${method} ${path}`),
      ]),
    );
    expect(found).toEqual([]);
  });

  it("end where the relay's own checks end", async () => {
    const parameter = document.paths["/api-keys/{keyId}/events"]?.["get"]?.parameters.find(
      ({ name }) => name === "limit",
    );
    expect(parameter?.schema).toMatchObject({ type: "integer", minimum: 1, maximum: 200 });
    for (const [limit, status] of [
      [0, 400],
      [1, 200],
      [200, 200],
      [201, 400],
    ])
      expect((await api.ask("GET", `/api-keys/key_1/events?limit=${limit}`)).status).toBe(status);
    const properties = document.components.schemas["SubscriptionCreate"]?.["properties"];
    const headers = (properties as Record<string, Schema> | undefined)?.["headers"];
    expect(JSON.stringify(headers)).toContain('"maxProperties":20');
    expect(JSON.stringify(headers)).toContain('"propertyNames":{"type":"string","maxLength":128');
    const body = (count: number, name = "x") => ({
      url: "https://hooks.example.com/a",
      events: ["a"],
      headers: Object.fromEntries(Array.from({ length: count }, (_, i) => [`${name}${i}`, "1"])),
    });
    expect((await api.ask("POST", LIST, { body: body(20, "x".repeat(126)) })).status).toBe(201);
    expect((await api.ask("POST", LIST, { body: body(21) })).status).toBe(400);
    expect((await api.ask("POST", LIST, { body: body(1, "x".repeat(128)) })).status).toBe(400);
  });
});

describe("the webhook in the document", () => {
  const body = deliveryBody("evt_1", "deposit:paid", "key_1", 1_767_225_600_000, '{"a":1.0}');
  const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const event = { eventId: "evt_1", type: "deposit:paid", attempt: 2, cycle: 1, traceparent, body: Buffer.from(body) };
  const secrets = [newSecret(), newSecret()].map(signingKey);

  it("has exactly the headers that a delivery has, and their form", () => {
    const {
      "Content-Type": type,
      Accept: _any,
      "Accept-Encoding": _,
      "User-Agent": agent,
      ...own
    } = signedHeaders(event, secrets, 1e12);
    expect([type, agent?.startsWith("Relay/")]).toEqual(["application/json", true]);
    const { post } = document.webhooks.event;
    expect(post.parameters.map(({ name }) => name).toSorted()).toEqual(Object.keys(own).toSorted());
    expect(deliveredHeaders.safeParse(own).error).toBeUndefined();
    const first = signedHeaders({ ...event, cycle: 0, traceparent: undefined }, secrets.slice(0, 1), 1e12);
    expect(deliveredHeaders.safeParse(first).error).toBeUndefined();
  });

  it("has exactly the body that a delivery has", () => {
    const value = JSON.parse(body) as object;
    expect(deliveredEvent.safeParse(value).error).toBeUndefined();
    const { post } = document.webhooks.event;
    expect(post.requestBody?.content["application/json"]?.schema).toEqual({
      $ref: "#/components/schemas/DeliveredEvent",
    });
    expect(Object.keys(document.components.schemas["DeliveredEvent"]?.["properties"] as object)).toEqual(
      Object.keys(value),
    );
  });
});
