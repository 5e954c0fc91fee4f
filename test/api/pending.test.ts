import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { attemptView } from "../../core/api/resources/attempts.ts";
import { replied } from "../support/path.ts";
import { HOOK, PUBLISH_TOKEN, serve } from "./serve.ts";
import type { Served } from "./serve.ts";

let api: Served;
let sub: string;
const KEY = "key_pending";
const retry = { attempts: 3, firstDelayMs: 3_600_000, factor: 1, maxDelayMs: 3_600_000 };

beforeAll(async () => {
  api = await serve();
  await api.path.start();
  const made = await api.ask("POST", `/api-keys/${KEY}/webhooks`, { body: { ...HOOK, retry } });
  expect(made.status, made.text).toBe(201);
  sub = (made.json.data as unknown as { id: string }).id;
});
afterAll(() => api[Symbol.asyncDispose]());

interface Shown {
  readonly status: string;
  readonly deliveries: readonly {
    readonly status: string;
    readonly reason?: string;
    readonly attempts: readonly object[];
  }[];
}
const shown = async (id: string): Promise<Shown> =>
  (await api.ask("GET", `/api-keys/${KEY}/events/${id}`)).json.data as unknown as Shown;
const until = async (id: string, is: (event: Shown) => boolean): Promise<Shown> => {
  for (;;) {
    const event = await shown(id);
    if (is(event)) return event;
    await new Promise((resolve) => setImmediate(resolve));
  }
};
/** Publishes an event whose first attempt has failed. */
async function failing(id: string): Promise<string> {
  api.path.answers = [replied(503)];
  const body = `{"type":"deposit:paid","keyId":"${KEY}","id":"${id}","data":{}}`;
  expect((await api.ask("POST", "/events", { body, token: PUBLISH_TOKEN })).status).toBe(202);
  await until(id, ({ deliveries }) => deliveries[0]?.attempts.length === 1);
  return id;
}
const act = (id: string, what: string, token = "all") =>
  api.ask("POST", `/api-keys/${KEY}/events/${id}/deliveries/${sub}/${what}`, { token });
const selected = (action: string, deliveries: readonly object[]) =>
  api.ask("POST", `/api-keys/${KEY}/deliveries`, { body: { action, deliveries } });
const audited = async (action: string): Promise<readonly string[]> => {
  const { json } = await api.ask("GET", `/api-keys/${KEY}/audit`);
  return (json.data as unknown as { action: string; target: string }[])
    .filter((line) => line.action === action)
    .map(({ target }) => target);
};

describe("a pending delivery", () => {
  it("is tried now, which the audit trail keeps", async () => {
    const id = await failing("p:1");
    expect((await act(id, "attempt")).status).toBe(204);
    expect((await until(id, ({ status }) => status === "delivered")).deliveries[0]?.attempts).toHaveLength(2);
    expect(await audited("delivery.tried")).toEqual([id]);
    const again = await act(id, "attempt");
    expect([again.status, again.json.code]).toEqual([409, "NOT_PENDING"]);
  });

  it("is cancelled, and then sent again by a replay to that subscription alone", async () => {
    const id = await failing("p:2");
    expect((await act(id, "cancel")).status).toBe(204);
    expect(await shown(id)).toMatchObject({
      status: "cancelled",
      deliveries: [{ status: "cancelled", reason: "cancel_requested", attempts: [{ statusCode: 503 }] }],
    });
    expect(await audited("delivery.cancelled")).toEqual([id]);
    const again = { body: { subscriptionId: sub } };
    expect((await api.ask("POST", `/api-keys/${KEY}/events/${id}/replay`, again)).status).toBe(202);
    await until(id, ({ status }) => status === "delivered");
  });

  it("of another key is not there", async () => {
    const id = await failing("p:3");
    const foreign = await api.ask("POST", `/api-keys/key_other/events/${id}/deliveries/${sub}/cancel`);
    expect([foreign.status, foreign.json.code]).toEqual([404, "NOT_FOUND"]);
    expect((await act(id, "cancel", "key_other")).status).toBe(404);
    expect((await shown(id)).status).toBe("pending");
  });
});

describe("several selected deliveries", () => {
  it("each say what became of them", async () => {
    const [one, two] = [await failing("s:1"), await failing("s:2")];
    const cancelled = await selected("cancel", [
      { eventId: one },
      { eventId: two, subscriptionId: sub },
      { eventId: "none" },
      { eventId: one, subscriptionId: sub },
    ]);
    expect(cancelled.status, cancelled.text).toBe(200);
    expect(cancelled.json.data).toEqual([
      { eventId: one, deliveries: 1 },
      { eventId: two, subscriptionId: sub, deliveries: 1 },
      { eventId: "none", deliveries: 0, code: "NOT_PENDING", detail: expect.any(String) },
      { eventId: one, subscriptionId: sub, deliveries: 0, code: "NOT_PENDING", detail: expect.any(String) },
    ]);
    const replayed = await selected("replay", [{ eventId: one, subscriptionId: sub }, { eventId: two }]);
    expect(replayed.json.data).toMatchObject([
      { eventId: one, deliveries: 1 },
      { eventId: two, deliveries: 0, code: "NOT_REPLAYABLE" },
    ]);
    await until(one, ({ status }) => status === "delivered");
    const three = await failing("s:3");
    expect((await selected("attempt", [{ eventId: three }])).json.data).toEqual([{ eventId: three, deliveries: 1 }]);
    await until(three, ({ status }) => status === "delivered");
  });

  it("are at least one and at most a hundred", async () => {
    expect((await selected("cancel", [])).status).toBe(400);
    const many = Array.from({ length: 101 }, (_, n) => ({ eventId: `e:${n}` }));
    expect((await selected("cancel", many)).status).toBe(400);
    expect((await selected("erase", [{ eventId: "e:1" }])).status).toBe(400);
  });
});

describe("the attempts of a key", () => {
  const list = async (query: Record<string, string> = {}) => {
    const got = await api.ask("GET", `/api-keys/${KEY}/attempts?${new URLSearchParams(query)}`);
    expect(got.status, got.text).toBe(200);
    return got.json;
  };
  const names = ({ data }: { data?: unknown }): readonly string[] =>
    (data as { eventId: string; number: number }[]).map(({ eventId, number }) => `${eventId} ${number}`);

  it("come newest event first, with their event, delivery and answer", async () => {
    const all = await list();
    expect((all.data as unknown as object[])[0]).toMatchObject({
      eventId: "s:3",
      type: "deposit:paid",
      subscriptionId: sub,
      deliveryStatus: "delivered",
      number: 2,
      statusCode: 200,
    });
    expect(names(all).slice(0, 3)).toEqual(["s:3 2", "s:3 1", "s:2 1"]);
  });

  it("are filtered by answer, stage, duration and subscription", async () => {
    expect(names(await list({ statusCode: "200" }))).not.toContain("s:3 1");
    expect(names(await list({ statusCode: "503", limit: "1" }))).toEqual(["s:3 1"]);
    expect(names(await list({ error: "dns" }))).toEqual([]);
    expect(names(await list({ minDurationMs: "3600000" }))).toEqual([]);
    expect(names(await list({ subscriptionId: "sub_none" }))).toEqual([]);
    expect(names(await list({ subscriptionId: sub }))).toEqual(names(await list()));
    expect(names(await list({ since: "2999-01-01T00:00:00Z" }))).toEqual([]);
    expect(names(await list({ until: "2000-01-01T00:00:00Z" }))).toEqual([]);
  });

  it("come in pages that lose and repeat nothing", async () => {
    const whole = names(await list());
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await list({ limit: "1", ...(cursor !== undefined && { cursor }) });
      seen.push(...names(page));
      cursor = page.meta?.nextCursor;
    } while (cursor !== undefined);
    expect(seen).toEqual(whole);
  });
});

describe("lists over all", () => {
  it("of events say where each went and what was answered last", async () => {
    const { json } = await api.ask("GET", `/api-keys/${KEY}/events?id=s:3`);
    expect((json.data as unknown as object[])[0]).toMatchObject({
      id: "s:3",
      recipients: 1,
      subscriptionIds: [sub],
      lastAttempt: { subscriptionId: sub, statusCode: 200, at: expect.any(String) },
    });
  });
});

const attemptOf = (error: "guard" | "connect", detail: string): unknown =>
  attemptView(
    { ordinal: "00000000000000000000000000", subscriptionId: "sub_1" },
    { cycle: 0, number: 1, startedAt: 0, durationMs: 1, error, detail },
  );

it("an attempt names the rule of the guard that refused it, and no address of an inner network", () => {
  expect(attemptOf("guard", "the host is not on the public internet")).toMatchObject({
    error: "guard",
    detail: "the host is not on the public internet",
  });
  expect(JSON.stringify(attemptOf("connect", "connect ECONNREFUSED 10.0.0.7:443"))).not.toContain("10.0.0.7");
});
