// What needs attention, asked of a relay: the dead among many endpoints, why, until when, and who knows of it.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AttentionReader } from "../../core/attention/attention.ts";
import { replied } from "../support/path.ts";
import { HOOK, serve, type Got, type Served } from "./serve.ts";

const KEY = "key_1";
const LIST = `/api-keys/${KEY}/attention`;

interface Item {
  readonly id: string;
  readonly state: string;
  readonly subscriptionId?: string;
  readonly keyId?: string;
  readonly part?: string;
  readonly reason: string;
  readonly failed?: number;
  readonly failures?: readonly { readonly statusCode?: number; readonly error?: string; readonly count: number }[];
  readonly acknowledged?: { readonly at: string; readonly by?: string };
}
const itemsOf = ({ status, text, json }: Got): readonly Item[] => {
  expect(status, text).toBe(200);
  return json.data as unknown as readonly Item[];
};
const made = async (api: Served, more: object = {}, keyId = KEY): Promise<string> => {
  const { json, text } = await api.ask("POST", `/api-keys/${keyId}/webhooks`, { body: { ...HOOK, ...more } });
  expect(json.data, text).toBeDefined();
  return (json.data as unknown as { id: string }).id;
};
const settled = async ({ path }: Served): Promise<void> => {
  await path.clock.advance(0);
  await path.parts.circuitBreaker.settled();
  await path.clock.advance(0);
};

describe("a key with 24 endpoints of which 8 are dead", () => {
  const CAUSES = [
    replied(500),
    replied(503),
    replied(404),
    replied(410),
    { kind: "error", error: "connect", detail: "nothing listens there (ECONNREFUSED 203.0.113.9:443)" },
    { kind: "error", error: "dns", detail: "its name is not known" },
    { kind: "error", error: "tls", detail: "its certificate has ended" },
    { kind: "error", error: "timeout", detail: "no answer within 10000 ms" },
  ] as const;
  let api: Served;
  const subs: string[] = [];
  beforeAll(async () => {
    api = await serve({
      health: { breakerAfter: 5, breakerPauseMs: 60_000, breakerMaxPauseMs: 900_000, disableAfterMs: 432_000_000 },
    });
    for (let i = 0; i < 24; i++) subs.push(await made(api, { retry: { attempts: 1 } }));
    api.path.otherwise = ({ subscriptionId }) => {
      const i = subs.indexOf(subscriptionId);
      return Promise.resolve(i % 3 === 0 ? (CAUSES[i / 3] as (typeof CAUSES)[0]) : replied(200));
    };
    await api.path.start();
    for (let i = 0; i < 6; i++) {
      await api.path.publish();
      await settled(api);
    }
  });
  afterAll(() => api[Symbol.asyncDispose]());

  it("lists the 8 and nothing else, each with its reason, its failures and what helps", async () => {
    const items = itemsOf(await api.ask("GET", LIST));
    expect(items.map(({ subscriptionId }) => subscriptionId).toSorted()).toEqual(
      subs.filter((_, i) => i % 3 === 0).toSorted(),
    );
    const of = (i: number) => items.find(({ subscriptionId }) => subscriptionId === subs[3 * i]);
    expect(of(0)).toMatchObject({ state: "down", severity: "error", reason: expect.stringContaining("HTTP 500") });
    expect(of(0)?.failures).toMatchObject([{ statusCode: 500, count: 5, example: { eventId: expect.any(String) } }]);
    expect(of(3)).toMatchObject({ state: "disabled", reason: "The receiver answered 410: it is gone for good" });
    expect(of(4)?.reason).toContain("connect: nothing listens there (ECONNREFUSED …)");
    expect(JSON.stringify(items)).not.toContain("203.0.113.9");
    for (const [i, word] of [
      [1, "503"],
      [2, "404"],
      [5, "dns"],
      [6, "tls"],
      [7, "timeout"],
    ] as const)
      expect(of(i)?.reason).toContain(word);
    const [one] = itemsOf(await api.ask("GET", `${LIST}?subscriptionId=${subs[0]}`));
    expect(one).toEqual(of(0));
  });

  it("answers those who may read the key, and nobody else", async () => {
    expect((await api.ask("GET", LIST, { token: "key_1" })).status).toBe(200);
    expect((await api.ask("GET", LIST, { token: "key_2" })).status).toBe(404);
    expect((await api.ask("GET", "/relay/attention", { token: "key_1" })).status).toBe(404);
    const body = { id: `${subs[0]}.down` };
    expect((await api.ask("POST", "/relay/attention/acknowledge", { token: "key_1", body })).status).toBe(404);
  });

  it("does not tell the holder of a link to the portal who has acknowledged it", async () => {
    const id = `${subs[3]}.down`;
    await api.ask("POST", `${LIST}/acknowledge`, { body: { id } });
    const now = async (token: string) =>
      itemsOf(await api.ask("GET", LIST, { token })).find((one) => one.id === id)?.acknowledged;
    expect(await now("key_1")).toEqual({ at: expect.any(String), by: "user-all" });
    expect(await now("key_1+portal")).toEqual({ at: expect.any(String) });
    expect((await api.ask("POST", `${LIST}/acknowledge`, { body: { id }, token: "key_1+portal" })).status).toBe(403);
  });

  it("keeps an acknowledgement until something new comes, with a line in the audit trail", async () => {
    const id = `${subs[0]}.down`;
    const acknowledge = (body: object) => api.ask("POST", `${LIST}/acknowledge`, { body, token: "key_1" });
    const now = async () => itemsOf(await api.ask("GET", LIST)).find((one) => one.id === id);
    expect((await acknowledge({ id })).json.data).toEqual({ id, acknowledged: true });
    expect(await now()).toMatchObject({ acknowledged: { by: "user-key_1", at: expect.any(String) } });
    const trail = await api.ask("GET", `/api-keys/${KEY}/audit?action=attention.acknowledged&target=${subs[0]}`);
    expect(trail.json.data).toMatchObject([{ target: subs[0], detail: "down", by: "user-key_1", result: "done" }]);

    expect((await acknowledge({ id, acknowledged: false })).status).toBe(200);
    expect(await now()).not.toHaveProperty("acknowledged");
    expect((await acknowledge({ id })).status).toBe(200);
    // The same failure again changes nothing; another one does.
    await api.path.clock.advance(61_000);
    await settled(api);
    expect(await now()).toHaveProperty("acknowledged");
    api.path.otherwise = replied(418);
    await api.path.publish();
    await api.path.clock.advance(300_000);
    await settled(api);
    expect((await now())?.failures?.[0]).toMatchObject({ statusCode: 418 });
    expect(await now()).not.toHaveProperty("acknowledged");
  });

  it("is acknowledged on a node, too, that has seen it fail later", async () => {
    const id = `${subs[6]}.down`;
    expect((await api.ask("POST", `${LIST}/acknowledge`, { body: { id } })).status).toBe(200);
    const { parts, clock } = api.path;
    const state = () => ({ failures: 5, failingSince: clock.now() + 1_000 });
    const other = new AttentionReader({ ...parts, circuitBreaker: { state } });
    expect((await other.ofKey(KEY, subs[6])).map((one) => [one.id, one.acknowledged?.by])).toEqual([[id, "user-all"]]);
  });

  it("knows nothing of what is not in the list", async () => {
    for (const id of [`${subs[1]}.down`, "sub_1.down", "x", "a.b.c"]) {
      const { status, json } = await api.ask("POST", `${LIST}/acknowledge`, { body: { id } });
      expect([id, status, json.code]).toEqual([id, 404, "NOT_FOUND"]);
    }
    expect((await api.ask("POST", `${LIST}/acknowledge`, { body: {} })).status).toBe(400);
  });
});

describe("the list of the whole relay", () => {
  it("begins with its own parts, then has every key, in pages", async () => {
    const parts = {
      relay: { ready: true },
      "source:kafka": { ready: false, state: "connection refused by kafka-1:9092", required: false },
      publishing: { ready: false, state: "STORAGE_FULL: there is no room", required: true },
    };
    await using api = await serve({ parts: () => parts });
    await api.path.start();
    for (const key of ["key_1", "key_2", "key_3"]) {
      const id = await made(api, { retry: { attempts: 1 } }, key);
      api.path.otherwise = replied(500);
      await api.path.publish("deposit:paid", { keyId: key });
      await settled(api);
      expect(itemsOf(await api.ask("GET", `/api-keys/${key}/attention`))).toMatchObject([
        { id: `${id}.failing`, reason: "1 delivery has failed, the last one: HTTP 500" },
      ]);
    }
    const all = itemsOf(await api.ask("GET", "/relay/attention"));
    expect(all.map(({ state, part, keyId }) => [state, part ?? keyId])).toEqual([
      ["publishing_refused", "publishing"],
      ["source_away", "source:kafka"],
      ["failing", "key_1"],
      ["failing", "key_2"],
      ["failing", "key_3"],
    ]);
    const one = await api.ask("GET", "/relay/attention?limit=1");
    expect(itemsOf(one).map(({ keyId }) => keyId)).toEqual([undefined, undefined, "key_1"]);
    const next = await api.ask("GET", `/relay/attention?limit=2&cursor=${one.json.meta?.nextCursor}`);
    expect(itemsOf(next).map(({ keyId }) => keyId)).toEqual(["key_2", "key_3"]);
    expect(next.json.meta).not.toHaveProperty("nextCursor");

    const body = { id: all[1]?.id };
    expect((await api.ask("POST", "/relay/attention/acknowledge", { body })).status).toBe(200);
    expect(itemsOf(await api.ask("GET", "/relay/attention"))[1]).toMatchObject({
      ...body,
      acknowledged: { by: "user-all" },
    });
  });
});

describe("order that is held", () => {
  it("needs attention until it is skipped", async () => {
    await using api = await serve();
    await api.path.start();
    const id = await made(api, { ordered: true, onFailed: "hold", retry: { attempts: 1 } });
    api.path.otherwise = replied(500);
    for (let i = 0; i < 3; i++) await api.path.publish();
    await settled(api);
    const [held] = itemsOf(await api.ask("GET", LIST));
    expect(held).toMatchObject({ id: `${id}.held`, reason: "A failed delivery holds up the 2 behind it", waiting: 2 });
    api.path.otherwise = replied(200);
    expect((await api.ask("POST", `/api-keys/${KEY}/webhooks/${id}/skip`)).status).toBe(200);
    await settled(api);
    expect(itemsOf(await api.ask("GET", LIST)).map(({ state }) => state)).toEqual(["failing"]);
  });
});

describe("an endpoint that is well but slow, or about to change", () => {
  it("needs attention while more than a minute's deliveries wait behind its own rate", async () => {
    await using api = await serve();
    await api.path.start();
    const id = await made(api, { rateLimit: { perSecond: 1 } });
    const batch = Array.from({ length: 300 }, (_, i) => `{"type":"deposit:paid","keyId":"key_1","data":${i}}`);
    const publications = batch.map((text) => ({ text, path: "" }));
    await api.path.parts.publisher.accept({ publications, source: "test" });
    await settled(api);
    expect(itemsOf(await api.ask("GET", LIST))).toEqual([]);
    await api.path.clock.advance(61_000);
    const [item] = itemsOf(await api.ask("GET", LIST));
    expect(item).toMatchObject({ id: `${id}.rate_limited`, severity: "warning", waiting: expect.any(Number) });
    expect(item?.reason).toMatch(/^\d+ wait behind its own rate limit: at 1 a second they take \d min$/);
  });

  it("needs attention in the last quarter of a rotation", async () => {
    await using api = await serve();
    const id = await made(api);
    const body = { overlapSeconds: 100 };
    const rotated = await api.ask("POST", `/api-keys/${KEY}/webhooks/${id}/rotate-secret`, { body, token: "all+mfa" });
    expect(rotated.status).toBe(200);
    await api.path.clock.advance(70_000);
    expect(itemsOf(await api.ask("GET", LIST))).toEqual([]);
    await api.path.clock.advance(10_000);
    const endsAt = (rotated.json.data as unknown as { previousSecretExpiresAt: string }).previousSecretExpiresAt;
    expect(itemsOf(await api.ask("GET", LIST))).toMatchObject([{ id: `${id}.secret_ending`, endsAt }]);
    await api.path.clock.advance(20_001);
    expect(itemsOf(await api.ask("GET", LIST))).toEqual([]);
  });

  it("needs none once a person has disabled it", async () => {
    await using api = await serve();
    await api.path.start();
    const id = await made(api, { retry: { attempts: 1 } });
    api.path.otherwise = replied(500);
    await api.path.publish();
    await settled(api);
    expect(itemsOf(await api.ask("GET", LIST))).toHaveLength(1);
    const body = { status: "disabled" };
    expect((await api.ask("PATCH", `/api-keys/${KEY}/webhooks/${id}`, { body })).status).toBe(200);
    expect(itemsOf(await api.ask("GET", LIST))).toEqual([]);
  });
});
