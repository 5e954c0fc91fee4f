import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { replied } from "../support/path.ts";
import { HOOK, PUBLISH_TOKEN, serve } from "./serve.ts";
import type { Served } from "./serve.ts";

let api: Served;
beforeAll(async () => {
  api = await serve();
  await api.path.start();
});
afterAll(() => api[Symbol.asyncDispose]());

const KEY = "key_search";
const EVENTS = `/api-keys/${KEY}/events`;
const publish = async (id: string, data: string): Promise<void> => {
  const body = `{"type":"deposit:paid","keyId":"${KEY}","id":"${id}","data":${data}}`;
  expect((await api.ask("POST", "/events", { body, token: PUBLISH_TOKEN })).status).toBe(202);
};
const found = async (query: Record<string, string>): Promise<readonly string[]> => {
  const { status, text, json } = await api.ask("GET", `${EVENTS}?${new URLSearchParams(query)}`);
  expect(status, text).toBe(200);
  return (json.data as unknown as { id: string }[]).map(({ id }) => id);
};
const ended = async (id: string): Promise<void> => {
  for (;;) {
    const { json } = await api.ask("GET", `${EVENTS}/${id}`);
    if ((json.data as unknown as { status: string }).status !== "pending") return;
    await new Promise((resolve) => setImmediate(resolve));
  }
};

describe("a search of events", () => {
  let first: string;
  beforeAll(async () => {
    const retry = { attempts: 1 };
    const made = await api.ask("POST", `/api-keys/${KEY}/webhooks`, { body: { ...HOOK, retry } });
    first = (made.json.data as unknown as { id: string }).id;
    const outcomes = [
      ["ord:1", '{"name":"ACME GmbH","n":1.50}', replied(200)],
      ["ord:2", '{"name":"Acme \\u00e4","n":2}', replied(500)],
      ["inv:1", '{"name":"Other","n":3}', replied(503)],
    ] as const;
    for (const [id, data, outcome] of outcomes) {
      api.path.otherwise = outcome;
      await publish(id, data);
      await ended(id);
    }
  });

  it("goes by the beginning of ids, and by text of the data as it was published", async () => {
    expect(await found({ id: "ord:" })).toEqual(["ord:2", "ord:1"]);
    expect(await found({ id: "ord:1" })).toEqual(["ord:1"]);
    expect(await found({ text: "ACME" })).toEqual(["ord:1"]);
    expect(await found({ text: "1.50" })).toEqual(["ord:1"]);
    expect(await found({ text: "\\u00e4" })).toEqual(["ord:2"]);
    // Neither the names of the envelope nor its values are data.
    expect(await found({ text: "keyId" })).toEqual([]);
    expect(await found({ id: "ord:", text: "Other" })).toEqual([]);
  });

  it("goes by what an attempt was answered, and all that is asked of attempts means one of them", async () => {
    expect(await found({ statusCode: "500" })).toEqual(["ord:2"]);
    expect(await found({ statusCode: "503", status: "failed" })).toEqual(["inv:1"]);
    expect(await found({ statusCode: "503", status: "delivered" })).toEqual([]);
    expect(await found({ statusCode: "200", minDurationMs: "3600000" })).toEqual([]);
    expect(await found({ statusCode: "200", minDurationMs: "0", subscriptionId: first })).toEqual(["ord:1"]);
    expect(await found({ error: "dns" })).toEqual([]);
  });

  it("comes in pages that say how far back they have looked", async () => {
    const one = await api.ask("GET", `${EVENTS}?statusCode=200&limit=1`);
    expect(one.json.meta).not.toHaveProperty("nextCursor");
    const page = await api.ask("GET", `${EVENTS}?id=ord:&limit=1`);
    const { nextCursor, searchedTo } = page.json.meta as unknown as { nextCursor: string; searchedTo: string };
    expect(new Date(searchedTo).toISOString()).toBe(searchedTo);
    expect(await found({ id: "ord:", limit: "1", cursor: nextCursor })).toEqual(["ord:1"]);
    const other = await api.ask("GET", `${EVENTS}?id=inv&limit=1&cursor=${nextCursor}`);
    expect(other.status).toBe(400);
  });

  it("is refused with what is wrong in it", async () => {
    const wrong = { id: "a b", type: "deposit:*", text: "", statusCode: "99", error: "sad", minDurationMs: "-1" };
    const { status, json } = await api.ask("GET", `${EVENTS}?${new URLSearchParams(wrong)}`);
    expect(status).toBe(400);
    const errors = json["errors"] as unknown as { path: string; message: string }[];
    expect(Object.fromEntries(errors.map(({ path, message }) => [path, message]))).toMatchObject({
      id: "must be an event id or its beginning",
      type: "must be one event name, without *",
      statusCode: "must be 100 to 599",
      minDurationMs: "must be 0 to 3600000",
      text: expect.any(String),
      error: expect.any(String),
    });
  });

  it.each(["events", "attempts", "replay"])(
    "is refused where its span of time has no moment in it (%s)",
    async (what) => {
      const span = { since: "2026-02-01T00:00:00Z", until: "2026-01-01T00:00:00Z" };
      const asked =
        what === "replay"
          ? api.ask("POST", `/api-keys/${KEY}/webhooks/${first}/replay`, { body: span })
          : api.ask("GET", `/api-keys/${KEY}/${what}?${new URLSearchParams(span)}`);
      const { status, json } = await asked;
      expect([status, json["errors"]]).toEqual([400, [{ path: "since", message: "must be before until" }]]);
    },
  );
});
