// Routes of plug-ins: the server asks who it is, once, and hands the answer on.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Problem } from "../../core/model/problem.ts";
import type { Route } from "../../core/ports/route.ts";
import { serve } from "./serve.ts";
import type { Served } from "./serve.ts";

const asked: string[] = [];
const ROW = "POST /counter";

/** Knows its callers by a name in a header. */
const named = (path: string, limit?: string): Route<{ readonly name: string }> => ({
  method: "POST",
  path,
  ...(limit !== undefined && { limit }),
  identify(request) {
    const name = request.header("x-name");
    asked.push(`who is ${name}`);
    if (name === undefined) throw new Problem("UNAUTHENTICATED", "Say your name.");
    return { counted: name, caller: { name } };
  },
  async handle(_, { name }) {
    asked.push(`answer ${name}`);
    return { status: 200, body: JSON.stringify({ name }) };
  },
});
const late: Route<string> = {
  ...named("/late", ROW),
  identify: (request) => Promise.resolve({ counted: ["x", "y"], caller: request.path }),
  handle: async (_, caller) => ({ status: 200, body: JSON.stringify({ name: caller }) }),
};
const anyone: Route = {
  method: "POST",
  path: "/anyone",
  limit: ROW,
  handle: async (_, caller) => ({ status: 200, body: JSON.stringify({ name: caller ?? "nobody" }) }),
};
const unheard: Route = {
  method: "POST",
  path: "/unheard",
  async handle() {
    throw new Problem("CONFLICT", "No.", { headers: { "X-Why": "two\nlines" } });
  },
};

let api: Served;
beforeAll(async () => {
  const routes = [named("/counted", ROW), named("/uncounted"), late, anyone, unheard];
  api = await serve({ rows: { [ROW]: { perMinute: 2, per5s: 2 } }, routes });
});
afterAll(() => api[Symbol.asyncDispose]());
beforeEach(async () => {
  await api.path.clock.advance(61_000);
  asked.length = 0;
});

const ask = (path: string, name?: string) =>
  api.ask("POST", path, { token: false, headers: name === undefined ? {} : { "X-Name": name } });

describe("a route that knows its callers", () => {
  it.each(["/counted", "/uncounted"])("is asked once who it is, and is handed its answer (%s)", async (path) => {
    const got = await ask(path, "ada");
    expect([got.status, got.json["name"]]).toEqual([200, "ada"]);
    expect(asked).toEqual(["who is ada", "answer ada"]);
  });

  it("does not see a request that it has refused", async () => {
    expect((await ask("/uncounted")).json.code).toBe("UNAUTHENTICATED");
    expect((await ask("/counted")).json.code).toBe("UNAUTHENTICATED");
    expect(asked).toEqual(["who is undefined", "who is undefined"]);
  });

  it("has each caller counted, and is not asked for an answer beyond the limit", async () => {
    for (const name of ["bob", "bob", "bob", "carol"]) await ask("/counted", name);
    const answers = asked.filter((one) => one.startsWith("answer"));
    expect(answers).toEqual(["answer bob", "answer bob", "answer carol"]);
  });

  it("may take its time, and name several that are counted", async () => {
    expect((await ask("/late")).json["name"]).toBe("/late");
    await ask("/late");
    expect((await ask("/late")).status).toBe(429);
  });

  it("is handed nobody where it does not ask, and the address is counted", async () => {
    expect((await ask("/anyone")).json["name"]).toBe("nobody");
    await ask("/anyone");
    expect((await ask("/anyone")).status).toBe(429);
  });
});

describe("a route whose problem has a header that cannot be sent", () => {
  it("is answered with 500", async () => {
    expect((await ask("/unheard")).status).toBe(500);
  });
});
