// A plug-in that the relay has never heard of documents its own routes, by the schema that validates them.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { openApiDocument, openApiRoutes } from "../../core/api/reference/openapi.ts";
import type { Route } from "../../core/ports/route.ts";
import { serve } from "./serve.ts";
import type { Served } from "./serve.ts";

const parcel = z
  .strictObject({ weight: z.int().min(1).max(50), label: z.string().max(20).optional() })
  .meta({ id: "Parcel", examples: [{ weight: 7 }] });
/** Another one's idea of the same name. */
const otherParcel = z.strictObject({ address: z.string() }).meta({ id: "Parcel" });
const accepted = z.strictObject({ number: z.string() });

const post: Route = {
  method: "POST",
  path: "/post-office/{branch}/parcels",
  describe: {
    summary: "Hand in a parcel",
    description: "It is weighed first.",
    tag: "Post office",
    security: { name: "stamp", header: "X-Stamp", description: "A stamp." },
    params: z.object({ branch: z.string().max(8) }),
    query: z.strictObject({ express: z.enum(["yes", "no"]).optional() }),
    headers: z.strictObject({ "X-Sender": z.string().meta({ description: "Who sends it." }) }),
    body: [{ schema: parcel, examples: { small: { weight: 1 } } }, { type: "text/plain" }],
    answers: [
      {
        status: 201,
        description: "Handed in.",
        headers: z.strictObject({ "X-Counter": z.string() }),
        content: { schema: accepted },
      },
    ],
    problems: ["VALIDATION_FAILED", "PAYLOAD_TOO_LARGE"],
  },
  handle: async (request) => {
    const given = parcel.safeParse(JSON.parse(Buffer.from(await request.body(1_000)).toString()));
    return { status: given.success ? 201 : 400, body: JSON.stringify({ number: "1" }) };
  },
};
const returns: Route = {
  method: "POST",
  path: "/post-office/returns",
  describe: { summary: "Send back", tag: "Post office", body: { schema: otherParcel }, answers: [{ status: 204 }] },
  handle: async () => ({ status: 204 }),
};
const silent: Route = { method: "GET", path: "/silent/{one}", handle: async () => ({ status: 204 }) };

type Json = Readonly<Record<string, never>>;
let api: Served;
beforeAll(async () => {
  const routes = [post, returns, silent];
  api = await serve({ routes: [...routes, ...openApiRoutes({ operations: [], routes, version: "1" })] });
});
afterAll(() => api[Symbol.asyncDispose]());

describe("a plug-in's route in /openapi.json", () => {
  it("is shown as it describes itself", async () => {
    const { json } = await api.ask("GET", "/openapi.json", { token: false });
    const paths = json["paths"] as Record<string, Record<string, Json>>;
    expect(paths["/post-office/{branch}/parcels"]?.["post"]).toEqual({
      operationId: "postPostOfficeBranchParcels",
      summary: "Hand in a parcel",
      description: "It is weighed first.",
      tags: ["Post office"],
      security: [{ stamp: [] }],
      parameters: [
        { name: "branch", in: "path", required: true, schema: { type: "string", maxLength: 8 } },
        { name: "express", in: "query", required: false, schema: { type: "string", enum: ["yes", "no"] } },
        { name: "X-Sender", in: "header", required: true, schema: { type: "string", description: "Who sends it." } },
      ],
      requestBody: {
        required: true,
        content: {
          "application/json": {
            schema: { $ref: "#/components/schemas/Parcel" },
            examples: { small: { value: { weight: 1 } } },
          },
          "text/plain": {},
        },
      },
      responses: {
        201: {
          description: "Handed in.",
          headers: { "X-Counter": { schema: { type: "string" } } },
          content: {
            "application/json": {
              schema: {
                type: "object",
                properties: { number: { type: "string" } },
                required: ["number"],
                additionalProperties: false,
              },
            },
          },
        },
        400: expect.objectContaining({ description: expect.stringContaining("`VALIDATION_FAILED`") }),
        413: expect.objectContaining({ description: expect.stringContaining("`PAYLOAD_TOO_LARGE`") }),
      },
    });
    const { schemas, securitySchemes } = json["components"] as Record<string, Record<string, Json>>;
    expect(schemas?.["Parcel"]).toMatchObject({ properties: { weight: { minimum: 1, maximum: 50 } } });
    expect(securitySchemes).toMatchObject({ stamp: { type: "apiKey", in: "header", name: "X-Stamp" } });
  });

  it("is checked by the very schema that the document shows", async () => {
    const at = "/post-office/main/parcels";
    expect((await api.ask("POST", at, { body: { weight: 50 } })).status).toBe(201);
    expect((await api.ask("POST", at, { body: { weight: 51 } })).status).toBe(400);
  });

  it("keeps its own schema where another plug-in gave one the same name", () => {
    const document = openApiDocument({ operations: [], routes: [post, returns], version: "1" });
    const { schemas } = document["components"] as Record<string, Record<string, Json>>;
    expect(schemas?.["Parcel"]).toHaveProperty("properties.weight");
    expect(schemas?.["Parcel2"]).toHaveProperty("properties.address");
    expect(JSON.stringify(document)).toContain("#/components/schemas/Parcel2");
  });

  it("is listed by its path where it says nothing of itself", () => {
    const document = openApiDocument({ operations: [], routes: [silent], version: "1" });
    expect(document["paths"]).toMatchObject({
      "/silent/{one}": { get: { summary: "GET /silent/{one}", tags: ["Routes of plug-ins"], security: [] } },
    });
  });
});

describe("a route whose description cannot be read", () => {
  it.each([
    [
      "throws",
      {
        get answers(): never {
          throw new Error("broken");
        },
      },
    ],
    ["has no answers", {}],
    ["is no JSON", { answers: [], description: 5n }],
    ["names a problem that there is not", { answers: [], problems: ["NOPE"] }],
  ])("as it %s, is listed by its path, and reported", (_, over) => {
    const describe = Object.defineProperties({ summary: "s", tag: "t" }, Object.getOwnPropertyDescriptors(over));
    const route = { method: "GET", path: "/wild", describe, handle: never } as unknown as Route;
    const reported: string[] = [];
    const document = openApiDocument({
      operations: [],
      routes: [route],
      version: "1",
      undescribable: ({ path }) => void reported.push(path),
    });
    expect(JSON.parse(JSON.stringify(document))).toHaveProperty(["paths", "/wild", "get", "summary"], "GET /wild");
    expect(reported).toEqual(["/wild"]);
  });
});

const never = (): Promise<never> => new Promise<never>(() => undefined);
