// What a route of a plug-in answers is judged before an HTTP answer is made of it.
import { describe, expect, it } from "vitest";
import { openApiDocument } from "../../core/api/reference/openapi.ts";
import type { Identified, Route, RouteReply } from "../../core/ports/route.ts";
import { createDeadlines } from "../../core/runtime/contain/deadlines.ts";
import { createIncidents } from "../../core/runtime/contain/incidents.ts";
import { containRoutes } from "../../core/runtime/contain/routes.ts";
import { wallOf } from "../../core/runtime/contain/wall.ts";
import { testClock } from "../support/clock.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";

function routeOf(over: Partial<Route>) {
  const [clock, log, metrics] = [testClock(), quietLog(), quietMetrics()];
  const incidents = createIncidents({ clock, log, metrics });
  const wall = wallOf({ kind: "source", name: "wild-1" }, { clock, incidents, deadlines: createDeadlines(clock) });
  const given: Route = { method: "GET", path: "/wild", handle: async () => ({ status: 200 }), ...over };
  const [route] = containRoutes([given], wall) as [Route];
  return { route, calls: () => log.lines.map(({ fields }) => fields?.["action"]) };
}

describe("a route that answers", () => {
  it.each([
    ["nothing", undefined],
    ["no status", {}],
    ["a status that is none", { status: 99 }],
    ["a status that ends the protocol", { status: 101 }],
    ["a number as body", { status: 200, body: 5 }],
    ["a stream as body", { status: 200, body: new ReadableStream() }],
    ["a header of two lines", { status: 200, headers: { "x-a": "a\r\nx-b: c" } }],
    ["a header that is no text", { status: 200, headers: { "x-a": 5 } }],
    ["a length of its own", { status: 200, headers: { "Content-Length": "3" }, body: "okokok" }],
  ])("%s is a fault of its plug-in", async (_, reply) => {
    const { route, calls } = routeOf({ handle: async () => reply as RouteReply });
    await expect(route.handle({} as never, undefined)).rejects.toThrow();
    expect(calls()).toEqual(["GET /wild"]);
  });

  it("as its port says is answered", async () => {
    const reply = { status: 200, headers: { "Set-Cookie": ["a", "b"] }, body: "ok" };
    const { route, calls } = routeOf({ handle: async () => reply });
    expect(await route.handle({} as never, undefined)).toEqual(reply);
    expect(calls()).toEqual([]);
  });
});

describe("a route that identifies", () => {
  it.each([
    ["nobody", undefined],
    ["somebody without a name", { counted: null, caller: 1 }],
    ["somebody with a right that there is not", { counted: "a", access: "admin", caller: 1 }],
  ])("%s is a fault of its plug-in", async (_, found) => {
    for (const identify of [() => found as Identified, () => Promise.resolve(found as Identified)]) {
      const { route, calls } = routeOf({ identify });
      await expect((async () => route.identify?.({} as never))()).rejects.toThrow();
      expect(calls()).toEqual(["GET /wild"]);
    }
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
