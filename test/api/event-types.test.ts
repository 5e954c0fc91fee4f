// Event types in the API: what is listed, what one of them shows, and the document that tools read.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventTypes } from "../../core/model/event-type.ts";
import { openApiRoutes } from "../../core/api/reference/openapi.ts";
import { serve, type Served } from "./serve.ts";

const schema = {
  $id: "https://example.com/deposit",
  type: "object",
  properties: { amount: { $ref: "#/$defs/money" }, $ref: { const: { $ref: "#/stays" } } },
  $defs: { money: { type: "string" } },
};
let types: EventTypes = {
  "deposit:paid": { schema, example: { amount: "1.00" }, description: "It has arrived.", validate: "refuse" },
  "deposit:seen": { deprecated: true, validate: "warn" },
};
let api: Served;
beforeAll(async () => {
  api = await serve({ more: { events: () => Object.keys(types), types: () => types } });
  await api.path.publish("used:here", { keyId: "key_1" });
  await api.path.publish("used:there", { keyId: "key_2" });
});
afterAll(() => api[Symbol.asyncDispose]());

const ask = async (path: string, token = "key_1") => await api.ask("GET", path, { token });

describe("event types", () => {
  it("are listed with what the config says of them, without their schemas", async () => {
    expect((await ask("/event-types")).json.data).toEqual([
      { name: "deposit:paid", description: "It has arrived.", validate: "refuse", hasExample: true },
      { name: "deposit:seen", deprecated: true },
      { name: "used:here" },
    ]);
  });

  it("are shown one by one, with schema and example", async () => {
    expect((await ask("/event-types/deposit:paid")).json.data).toEqual({
      name: "deposit:paid",
      description: "It has arrived.",
      validate: "refuse",
      schema,
      example: { amount: "1.00" },
    });
    expect((await ask("/event-types/deposit:seen")).json.data).toEqual({ name: "deposit:seen", deprecated: true });
  });

  it("are found where the token may see them, and nowhere else", async () => {
    expect((await ask("/event-types/used:here")).json.data).toEqual({ name: "used:here" });
    for (const name of ["used:there", "no:such", "toString", "__proto__", "not%20a%20name", "x".repeat(300)])
      expect((await ask(`/event-types/${name}`)).status, name).toBe(404);
    expect((await ask("/event-types/used:there", "all")).status).toBe(200);
  });
});

interface Document {
  readonly webhooks: Readonly<Record<string, { readonly post: Record<string, unknown> }>>;
}

/** Without the relay's own. */
const namesOf = ({ webhooks }: Document): readonly string[] =>
  Object.keys(webhooks).filter((name) => !name.startsWith("relay:"));

describe("the OpenAPI document", () => {
  const [route] = openApiRoutes({ operations: [], routes: [], version: "1", types: () => types });
  async function read(): Promise<Document> {
    const reply = (await route?.handle({} as never, {} as never)) as { readonly body: string };
    return JSON.parse(reply.body) as Document;
  }

  it("has a webhook for each type, whose references lead to the new place of the schema", async () => {
    const document = await read();
    expect(namesOf(document)).toEqual(["event", "deposit:paid"]);
    const place = "/webhooks/deposit:paid/post/requestBody/content/application~1json/schema/properties/data";
    const at = (pointer: string): unknown =>
      pointer
        .split("/")
        .slice(1)
        .reduce(
          (value: unknown, part) => (value as Record<string, unknown>)[part.replaceAll("~1", "/")],
          document as unknown,
        );
    expect(at(place)).toEqual({
      type: "object",
      properties: { amount: { $ref: `#${place}/$defs/money` }, $ref: { const: { $ref: "#/stays" } } },
      $defs: { money: { type: "string" } },
    });
    expect(at(`${place}/$defs/money`)).toEqual({ type: "string" });
  });

  it("changes with the types", async () => {
    await read();
    const before = types;
    types = { "other:type": { schema: true, deprecated: true, validate: "off" } };
    const document = await read();
    expect(namesOf(document)).toEqual(["event", "other:type"]);
    expect(document.webhooks["other:type"]?.post).toMatchObject({ deprecated: true });
    types = before;
  });
});
