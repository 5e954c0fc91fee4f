// A route whose description cannot be read is listed by its path, and reported.
import { describe, expect, it } from "vitest";
import { openApiDocument } from "../../core/api/reference/openapi.ts";
import type { Route } from "../../core/ports/route.ts";

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
