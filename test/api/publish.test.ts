// Events that a manager of a key publishes by hand: events like all others, and in the audit trail.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HOOK, serve } from "./serve.ts";
import type { Served } from "./serve.ts";

let api: Served;
const KEY = "key_hand";
const EVENTS = `/api-keys/${KEY}/events`;
beforeAll(async () => {
  api = await serve();
  await api.path.start();
  expect((await api.ask("POST", `/api-keys/${KEY}/webhooks`, { body: HOOK })).status).toBe(201);
});
afterAll(() => api[Symbol.asyncDispose]());

const publish = (body: unknown, token = KEY) => api.ask("POST", EVENTS, { body, token });
const audited = async (): Promise<readonly object[]> => {
  const { json } = await api.ask("GET", `/api-keys/${KEY}/audit?action=event.published`);
  return json.data as unknown as object[];
};

describe("an event that is published by hand", () => {
  it("is stored with its audit line, byte for byte, and delivered", async () => {
    const { status, headers, json } = await publish(
      '{"data": {"n":1.50,"b":[ 12345678901234567890 ]},"type":"deposit:paid","id":"h:1"}',
    );
    expect([status, headers["relay-durability"]]).toEqual([202, "volatile"]);
    expect(json.data).toMatchObject({ id: "h:1", type: "deposit:paid", keyId: KEY, deliveries: 1, duplicate: false });
    const shown = await api.ask("GET", `${EVENTS}/h:1`);
    expect(shown.text).toContain('"data":{"n":1.50,"b":[ 12345678901234567890 ]},');
    expect(await audited()).toMatchObject([
      { action: "event.published", target: "h:1", detail: "deposit:paid", by: `user-${KEY}`, result: "done" },
    ]);
  });

  it("has headers by the rules of POST /events, whose problems name them", async () => {
    const event = { type: "deposit:paid", data: 1, id: "h:headers" };
    expect((await publish({ ...event, headers: { "X-Tenant": "t-1" } })).status).toBe(202);
    expect((await api.ask("GET", `${EVENTS}/h:headers`)).json.data).toMatchObject({ headers: { "x-tenant": "t-1" } });
    for (const [headers, path] of [
      [{ Cookie: "a=b" }, "headers.Cookie"],
      [{ "X-Tenant": 1 }, "headers.X-Tenant"],
      [{ "X-Tenant": "Zürich" }, "headers.X-Tenant"],
      [[], "headers"],
    ] as const) {
      const { status, json } = await publish({ ...event, id: "h:refused", headers });
      expect([status, json.errors?.map((one) => one.path)]).toEqual([400, [path]]);
    }
    expect((await api.ask("GET", `${EVENTS}/h:refused`)).status).toBe(404);
  });

  it("is a duplicate the second time, which is no second line; other data under its id is refused", async () => {
    expect((await publish({ type: "deposit:paid", data: 1, id: "h:2" })).status).toBe(202);
    const lines = await audited();
    expect((await publish({ type: "deposit:paid", data: 1, id: "h:2" })).json.data).toMatchObject({ duplicate: true });
    const other = await publish({ type: "deposit:paid", data: 2, id: "h:2" });
    expect([other.status, other.json.code]).toEqual([409, "IDEMPOTENCY_MISMATCH"]);
    expect(await audited()).toEqual(lines);
  });

  it("is refused with all that is wrong with it, and nothing is stored", async () => {
    const lines = await audited();
    const paths = async (body: unknown) => {
      const { status, json } = await publish(body);
      return [status, json.errors?.map(({ path }) => path).toSorted()];
    };
    expect(await paths({ type: "no name", id: "-", keyId: KEY, createdAt: "soon" })).toEqual([
      400,
      ["createdAt", "data", "id", "keyId", "type"],
    ]);
    expect(await paths({ type: "relay:ping", data: 1 })).toEqual([400, ["type"]]);
    expect(await paths('{"type":"a:b","data":{"a":1,"a":2}}')).toEqual([400, ["data.a"]]);
    expect((await publish({ type: "a:b", data: "x".repeat(66_000) })).status).toBe(413);
    expect(await audited()).toEqual(lines);
  });

  it("is for those who own the key, and for none with a publish token", async () => {
    expect((await publish({ type: "a:b", data: 1 }, "key_other")).status).toBe(404);
    expect((await publish({ type: "a:b", data: 1 }, "bad")).status).toBe(401);
  });
});
