// A filter in the API: what is taken, what is refused and where, and the filter test.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HOOK, LIST, serve } from "./serve.ts";
import type { Got, Served } from "./serve.ts";

let api: Served;
let id: string;
beforeAll(async () => {
  api = await serve();
  const made = await api.ask("POST", LIST, { token: "key_1", body: HOOK });
  id = (made.json.data as unknown as { readonly id: string }).id;
});
afterAll(() => api[Symbol.asyncDispose]());

const EUR = { path: "data.currency", equals: "EUR" };
const patch = (filter: unknown): Promise<Got> =>
  api.ask("PATCH", `${LIST}/${id}`, { token: "key_1", body: { filter } });
const test = (body: unknown, token = "key_1"): Promise<Got> =>
  api.ask("POST", `${LIST}/${id}/filter/test`, { token, body });
const errors = (got: Got): Record<string, string> =>
  Object.fromEntries((got.json.errors ?? []).map(({ path, message }) => [path, message]));

/** A group in a group, and so on, with a condition at the bottom. */
const nested = (depth: number): unknown => (depth === 1 ? EUR : { not: nested(depth - 1) });

describe("the filter of a subscription", () => {
  it("is set at its creation or later, shown in every answer, recorded in the audit, and removed by null", async () => {
    const made = await api.ask("POST", LIST, { token: "key_1", body: { ...HOOK, filter: EUR } });
    expect(made.json.data).toMatchObject({ filter: EUR });
    const range = { and: [{ path: ["data", "amount.net"], gte: 10, lt: 20 }, { not: { path: "type", prefix: "x" } }] };
    expect((await patch(range)).json.data).toMatchObject({ filter: range });
    expect((await api.ask("GET", `${LIST}/${id}`, { token: "key_1" })).json.data).toMatchObject({ filter: range });
    const listed = (await api.ask("GET", LIST, { token: "key_1" })).json.data as unknown as { filter: unknown }[];
    expect(listed.map(({ filter }) => filter)).toEqual(expect.arrayContaining([EUR, range]));
    await patch(null);
    expect((await api.ask("GET", `${LIST}/${id}`, { token: "key_1" })).json.data).not.toHaveProperty("filter");
    const audit = (await api.ask("GET", "/api-keys/key_1/audit", { token: "key_1" })).json.data as unknown as {
      readonly action: string;
      readonly detail?: string;
    }[];
    expect(audit.filter(({ detail }) => detail === "filter").map(({ action }) => action)).toEqual([
      "subscription.updated",
      "subscription.updated",
    ]);
  });

  it.each([
    [{ path: "data.a" }, "filter", "must have one of"],
    [{}, "filter", "must have one of"],
    [{ path: "data.a", equals: 1, prefix: "x" }, "filter", "has equals and prefix"],
    [{ path: "data.a", equals: 1, gt: 1 }, "filter", "has equals and a range"],
    [{ path: "data.a", gt: 1, gte: 1 }, "filter", "has gt and gte"],
    [{ and: [EUR], path: "data.a" }, "filter", "is a group"],
    [{ and: [EUR], or: [EUR] }, "filter", "has and and or"],
    [{ equals: 1 }, "filter", "needs a path"],
    [{ and: [EUR, { or: [{ path: "body.a", exists: true }] }] }, "filter.and[1].or[0].path", "must be type"],
    [{ path: "type.a", exists: true }, "filter.path", "must be type"],
    [{ path: "data..a", exists: true }, "filter.path", "has an empty name"],
    [{ path: ["data", ...Array.from({ length: 16 }, String)], exists: true }, "filter.path", "at most 16 names"],
    [{ path: ["data", "n".repeat(129)], exists: true }, "filter.path", "at most 128 characters"],
    [{ path: 7, exists: true }, "filter.path", 'must be text such as "data.amount", or a list of names'],
    [{ path: "data.a", equals: [1] }, "filter.equals", "must be text, a number, true, false or null"],
    [{ path: "data.a", in: [] }, "filter.in", "at least one item"],
    [{ path: "data.a", in: Array.from({ length: 101 }, () => 1) }, "filter.in", "at most 100 items"],
    [{ path: "data.a", gte: "1" }, "filter.gte", "must be a number"],
    [{ path: "data.a", exists: true, matches: "^(a+)+$" }, "filter.matches", "is not known"],
    [{ and: [] }, "filter.and", "at least one item"],
    [{ path: "data.a", in: Array.from({ length: 100 }, (_, i) => `${i}${"é".repeat(30)}`) }, "filter", "4096 bytes"],
    [nested(9), "filter", "at most 8 levels"],
    [nested(60), "filter", "at most 8 levels"],
    [{ and: Array.from({ length: 63 }, () => ({ not: EUR })) }, "filter", "at most 64 parts"],
    ["data.a = 1", "filter", "must be an object"],
  ])("is refused, saying what is wrong and where: %j", async (filter, path, message) => {
    const got = await patch(filter);
    expect([got.status, errors(got)]).toEqual([400, { [path]: expect.stringContaining(message) }]);
  });

  it("may be as large as its bounds say", async () => {
    expect((await patch(nested(8))).status).toBe(200);
    const conditions = Array.from({ length: 63 }, (_, i) => ({ path: "data.a", equals: i }));
    expect((await patch({ or: conditions })).status).toBe(200);
    const path = ["data", ...Array.from({ length: 15 }, String)];
    expect((await patch({ path, in: Array.from({ length: 100 }, (_, i) => i) })).status).toBe(200);
    await patch(null);
  });
});

describe("the filter test", () => {
  const filter = {
    and: [
      EUR,
      {
        or: [
          { path: "data.amount", gte: 100 },
          { path: "data.vip", equals: true },
        ],
      },
    ],
  };

  it("says whether an event that is not stored matches a filter that is not stored, and which condition did not", async () => {
    const event = { type: "deposit:paid", data: { currency: "EUR", amount: 99.5 } };
    const got = await test({ event, filter });
    expect([got.status, got.json.data]).toEqual([
      200,
      {
        matched: false,
        typeMatched: true,
        filterMatched: false,
        type: "deposit:paid",
        filter,
        conditions: [
          { at: "filter.and[0]", condition: EUR, matched: true, decided: false, found: '"EUR"' },
          {
            at: "filter.and[1].or[0]",
            condition: { path: "data.amount", gte: 100 },
            matched: false,
            decided: true,
            found: "99.5",
          },
          {
            at: "filter.and[1].or[1]",
            condition: { path: "data.vip", equals: true },
            matched: false,
            decided: true,
            found: "missing",
          },
        ],
      },
    ]);
  });

  it("judges a stored event by the stored filter", async () => {
    await patch(EUR);
    const eventId = await api.path.publish("deposit:paid", { data: { currency: "USD", note: "x".repeat(500) } });
    expect((await test({ eventId })).json.data).toMatchObject({ matched: false, filter: EUR });
    expect((await test({ eventId, filter: null })).json.data).toMatchObject({ matched: true, filter: null });
    const note = { path: "data.note", prefix: "xx" };
    const { conditions } = (await test({ eventId, filter: note })).json.data as unknown as {
      readonly conditions: readonly { readonly found: string }[];
    };
    expect(conditions[0]?.found).toBe(`"${"x".repeat(120)}"…`);
    await patch(null);
  });

  it("does not match an event of another type, whatever the filter", async () => {
    const got = await test({ event: { type: "withdraw:paid", data: null } });
    expect(got.json.data).toMatchObject({ matched: false, typeMatched: false, filterMatched: true });
  });

  it("refuses what names no event, or two", async () => {
    const event = { type: "deposit:paid", data: 1 };
    expect((await test({})).status).toBe(400);
    expect((await test({ event, eventId: "evt_1" })).status).toBe(400);
    expect(errors(await test({ event: { type: "deposit:paid" } }))).toEqual({ "event.data": "is missing" });
    expect((await test({ eventId: "evt_1" })).status).toBe(404);
    expect((await test({ event }, "key_2")).status).toBe(404);
    const other = await api.path.publish("deposit:paid", { keyId: "key_2" });
    expect((await test({ eventId: other })).status).toBe(404);
  });
});
