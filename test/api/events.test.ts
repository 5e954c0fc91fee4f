import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Delivery } from "../../core/model/delivery.ts";
import { replied } from "../support/path.ts";
import { HOOK, PUBLISH_TOKEN, RETRY, serve } from "./serve.ts";
import type { Got, Served } from "./serve.ts";

let api: Served;
beforeAll(async () => {
  api = await serve();
  await api.path.start();
});
afterAll(() => api[Symbol.asyncDispose]());

interface ShownDelivery {
  readonly id: string;
  readonly subscriptionId: string;
  readonly status: string;
  readonly reason?: string;
  readonly cycle: number;
  readonly attempts: readonly Record<string, unknown>[];
  readonly nextAttemptAt?: string;
}
interface Shown {
  readonly id: string;
  readonly status: string;
  readonly type: string;
  readonly data?: unknown;
  readonly deliveries: readonly ShownDelivery[];
}

const hook = async (keyId: string, more: object = {}): Promise<string> => {
  const got = await api.ask("POST", `/api-keys/${keyId}/webhooks`, { body: { ...HOOK, ...more } });
  return (got.json.data as unknown as { id: string }).id;
};
const publish = async (keyId: string, more: string = ""): Promise<string> => {
  const body = `{"type":"deposit:paid","keyId":"${keyId}","data":{"n":1}${more}}`;
  const got = await api.ask("POST", "/events", { body, token: PUBLISH_TOKEN });
  expect(got.status, got.text).toBe(202);
  return (got.json.data as unknown as { id: string }).id;
};
const list = async (keyId: string, query = ""): Promise<Got & { readonly all: readonly Shown[] }> => {
  const got = await api.ask("GET", `/api-keys/${keyId}/events${query}`);
  return { ...got, all: (got.json.data ?? []) as unknown as Shown[] };
};
const show = async (keyId: string, id: string): Promise<Shown> =>
  (await api.ask("GET", `/api-keys/${keyId}/events/${id}`)).json.data as unknown as Shown;
/** Waits until the event reads so: each look lets the path go on. */
const until = async (keyId: string, id: string, status: string): Promise<Shown> => {
  for (;;) {
    const shown = await show(keyId, id);
    if (shown.status === status) return shown;
    await new Promise((resolve) => setImmediate(resolve));
  }
};

describe("an event", () => {
  it("is published, delivered and shown with its attempt", async () => {
    await hook("key_a");
    api.path.otherwise = replied(200, { excerpt: Buffer.from("thank you") });
    const shown = await until("key_a", await publish("key_a"), "delivered");
    expect(Object.keys(shown)).toEqual([
      "id",
      "type",
      "keyId",
      "createdAt",
      "acceptedAt",
      "status",
      "data",
      "deliveries",
    ]);
    expect(shown.deliveries).toHaveLength(1);
    expect(shown.deliveries[0]).toMatchObject({ status: "delivered", cycle: 0 });
    expect(shown.deliveries[0]?.id).toMatch(/^dlv_/);
    expect(shown.deliveries[0]?.attempts[0]).toMatchObject({
      id: expect.stringMatching(/^att_.*_0_1$/),
      number: 1,
      statusCode: 200,
      responseExcerpt: "thank you",
    });
    expect((await list("key_a")).all).toMatchObject([{ id: shown.id, status: "delivered" }]);
  });

  it("shows its data byte for byte", async () => {
    const data = '{"z":9007199254740993,"a":1.0,"a":"\\u0041\\/","e":1E5}';
    const body = `{"type":"deposit:paid","keyId":"key_raw","data": ${data} }`;
    const { json } = await api.ask("POST", "/events", { body, token: PUBLISH_TOKEN });
    const got = await api.ask("GET", `/api-keys/key_raw/events/${(json.data as unknown as Shown).id}`);
    expect(got.text).toContain(`"data":${data},"deliveries":[]`);
    expect((got.json.data as unknown as Shown).status).toBe("unmatched");
  });

  it("of the publisher's own id is found by it", async () => {
    expect(await publish("key_own", ',"id":"evt_0123456789abcdefghjkmnpqrs"')).toBe("evt_0123456789abcdefghjkmnpqrs");
    await publish("key_own", ',"id":"order:17"');
    expect((await show("key_own", "order%3A17")).id).toBe("order:17");
    expect((await show("key_own", "evt_0123456789abcdefghjkmnpqrs")).id).toBe("evt_0123456789abcdefghjkmnpqrs");
    expect((await api.ask("GET", "/api-keys/key_other/events/order:17")).status).toBe(404);
  });

  it("that failed is shown so, and is replayed with its attempts kept", async () => {
    const id = await hook("key_f", { retry: { attempts: 2, firstDelayMs: 10, factor: 1, maxDelayMs: 10 } });
    api.path.otherwise = replied(500);
    const event = await publish("key_f");
    await api.path.clock.whenSleeping(1);
    expect((await show("key_f", event)).deliveries[0]?.nextAttemptAt).toBeDefined();
    for (let i = 0; i < 4; i++) await api.path.clock.advance(1_000);
    const failed = await until("key_f", event, "failed");
    expect(failed.deliveries[0]).toMatchObject({ reason: "exhausted", attempts: [{ number: 1 }, { number: 2 }] });

    api.path.otherwise = replied(204);
    const asked = await api.ask("POST", `/api-keys/key_f/events/${event}/replay`);
    expect([asked.status, asked.json.data]).toEqual([202, { deliveries: 1 }]);
    const delivered = await until("key_f", event, "delivered");
    const numbers = (list: readonly Record<string, unknown>[] = []) => list.map(({ cycle, number }) => [cycle, number]);
    expect(numbers(delivered.deliveries[0]?.attempts)).toEqual([[1, 1]]);
    const attempts = `/api-keys/key_f/events/${event}/deliveries/${id}/attempts`;
    const first = (await api.ask("GET", `${attempts}?limit=1`)).json;
    expect(numbers(first.data as never)).toEqual([[1, 1]]);
    const rest = (await api.ask("GET", `${attempts}?limit=1&cursor=${first.meta?.["nextCursor"] as string}`)).json;
    expect([numbers(rest.data as never), rest.meta?.["nextCursor"]]).toEqual([
      [
        [0, 2],
        [0, 1],
      ],
      undefined,
    ]);
    expect((await api.ask("GET", attempts.replace(id, "sub_none"))).status).toBe(404);
    expect((await api.ask("GET", `${attempts}?cursor=abc`)).status).toBe(400);
    expect((await api.ask("POST", `/api-keys/key_f/events/${event}/replay`)).json.code).toBe("NOT_REPLAYABLE");
    const forced = await api.ask("POST", `/api-keys/key_f/events/${event}/replay`, {
      body: { force: true, subscriptionId: id },
    });
    expect(forced.status).toBe(202);
    const { data } = (await api.ask("GET", "/api-keys/key_f/audit")).json;
    expect(data).toMatchObject([{ action: "event.replayed", target: event }, { action: "event.replayed" }, {}]);
  });

  it("reads as cancelled when its subscription is deleted, and as failed when it is disabled", async () => {
    for (const [keyId, change, status, reason] of [
      ["key_del", "DELETE", "cancelled", "subscription_deleted"],
      ["key_dis", "PATCH", "failed", "subscription_disabled"],
    ] as const) {
      const id = await hook(keyId);
      api.path.otherwise = replied(503);
      const sent = api.path.sent.length;
      const event = await publish(keyId);
      await api.path.whenSent(sent + 1);
      expect((await show(keyId, event)).status).toBe("pending");
      const body = change === "PATCH" ? { status: "disabled" } : undefined;
      expect((await api.ask(change, `/api-keys/${keyId}/webhooks/${id}`, { body })).status).toBeLessThan(300);
      const shown = await show(keyId, event);
      expect(shown.deliveries[0]).toMatchObject({ status, reason });
      expect(shown.deliveries[0]).not.toHaveProperty("nextAttemptAt");
      expect((await list(keyId, `?status=${status}`)).all).toHaveLength(1);
    }
  });
});

describe("lists", () => {
  it("go on where the last page ended, newest first, without gaps or repeats", async () => {
    const ids: string[] = [];
    for (let i = 0; i < 7; i++) ids.push(await publish("key_page"));
    const seen: string[] = [];
    let query = "?limit=3";
    for (let pages = 0; pages < 3; pages++) {
      const page = await list("key_page", query);
      seen.push(...page.all.map(({ id }) => id));
      query = `?limit=3&cursor=${page.json.meta?.nextCursor ?? ""}`;
      expect(page.json.meta?.nextCursor === undefined).toBe(pages === 2);
    }
    expect(seen).toEqual(ids.toReversed());
  });

  it("are narrowed by type, subscription, status and time", async () => {
    const id = await hook("key_filter", { events: ["deposit:paid"] });
    const early = new Date(api.path.clock.now()).toISOString();
    await publish("key_filter");
    await api.path.clock.advance(1_000);
    const late = new Date(api.path.clock.now()).toISOString();
    const body = { type: "withdraw:sent", keyId: "key_filter", data: null };
    await api.ask("POST", "/events", { body, token: PUBLISH_TOKEN });
    const types = async (query: string): Promise<readonly string[]> =>
      (await list("key_filter", query)).all.map(({ type }) => type);
    expect(await types("")).toEqual(["withdraw:sent", "deposit:paid"]);
    expect(await types("?type=withdraw:sent")).toEqual(["withdraw:sent"]);
    expect(await types(`?subscriptionId=${id}`)).toEqual(["deposit:paid"]);
    expect(await types("?status=unmatched")).toEqual(["withdraw:sent"]);
    expect(await types(`?since=${late}`)).toEqual(["withdraw:sent"]);
    expect(await types(`?since=${early}&until=${late}`)).toEqual(["deposit:paid"]);
    expect(await types(`?until=${early}`)).toEqual([]);
  });

  it.each([
    "?limit=0",
    "?limit=201",
    "?limit=1e2",
    "?limit=1&limit=2",
    "?status=lost",
    "?since=yesterday",
    "?cursor=",
    "?cursor=abc",
    "?unknown=1",
    "?__proto__=1",
  ])("refuse %s", async (query) => {
    const got = await list("key_page", query);
    expect([got.status, got.json.code]).toEqual([400, "VALIDATION_FAILED"]);
    expect(got.json.errors?.length).toBe(1);
  });

  it("take a cursor of their own only", async () => {
    const cursor = (await list("key_page", "?limit=3")).json.meta?.nextCursor ?? "";
    for (let i = 0; i < 3; i++) await publish("key_page2");
    for (const [keyId, query] of [
      ["key_page2", `?cursor=${cursor}`],
      ["key_page", `?cursor=${cursor}&status=failed`],
      ["key_page", `?cursor=${cursor}=`],
      ["key_page", `?cursor=${cursor.slice(0, -1)}`],
    ] as const) {
      expect((await list(keyId, query)).status).toBe(400);
    }
    expect((await api.ask("GET", `/api-keys/key_page/audit?cursor=${cursor}`)).status).toBe(400);
  });
});

describe("one subscription's deliveries", () => {
  it("are listed whether they were tried or not, each once, newest first", async () => {
    const id = await hook("key_many", { retry: { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 } });
    api.path.otherwise = replied(500);
    const failed = [];
    for (let i = 0; i < 4; i++) failed.push(await publish("key_many"));
    for (const event of failed) await until("key_many", event, "failed");
    const release: (() => void)[] = [];
    api.path.otherwise = () => new Promise((resolve) => release.push(() => resolve(replied(200))));
    const waiting = [];
    for (let i = 0; i < 3; i++) waiting.push(await publish("key_many"));
    const target = `/api-keys/key_many/webhooks/${id}/deliveries`;
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const got = await api.ask("GET", `${target}?limit=2${cursor === undefined ? "" : `&cursor=${cursor}`}`);
      expect(got.status, got.text).toBe(200);
      seen.push(...(got.json.data as unknown as { eventId: string }[]).map(({ eventId }) => eventId));
      cursor = got.json.meta?.nextCursor;
    } while (cursor !== undefined);
    expect(seen).toEqual([...failed, ...waiting].toReversed());
    const pending = (await api.ask("GET", `${target}?status=pending`)).json.data as unknown as Delivery[];
    expect(pending.map(({ eventId }) => eventId)).toEqual(waiting.toReversed());
    for (const go of release) go();
    api.path.otherwise = replied(200);
    for (const event of waiting) await until("key_many", event, "delivered");
  });

  it("that failed are counted first and replayed then", async () => {
    const keyId = "key_many";
    const dry = await api.ask("POST", `/api-keys/${keyId}/replay`, { body: { dryRun: true } });
    expect([dry.status, dry.json.data]).toEqual([202, { matched: 4, replayed: 0, more: false }]);
    const some = await api.ask("POST", `/api-keys/${keyId}/replay`, { body: { limit: 3, perSecond: 1 } });
    expect(some.json.data).toEqual({ matched: 3, replayed: 3, more: true });
    const { items } = await api.path.parts.history.events(keyId, { status: "pending" }, { limit: 10 });
    expect(items.length).toBeGreaterThan(0);
    for (let i = 0; i < 5; i++) await api.path.clock.advance(1_000);
    for (const { event } of items) await until(keyId, event.id, "delivered");
  });

  it("of one that is disabled cannot be replayed, nor of one that never was", async () => {
    const id = await hook("key_off");
    const target = `/api-keys/key_off/webhooks/${id}`;
    await api.ask("PATCH", target, { body: { status: "disabled" } });
    expect((await api.ask("POST", `${target}/replay`)).json.code).toBe("NOT_REPLAYABLE");
    await api.ask("DELETE", target);
    expect((await api.ask("POST", `${target}/replay`)).json.code).toBe("NOT_REPLAYABLE");
    expect((await api.ask("POST", "/api-keys/key_off/webhooks/sub_none/replay")).status).toBe(404);
    expect((await api.ask("GET", `${target}/deliveries`)).status).toBe(404);
  });
});

it("sends all that failed of a key again in time, though the clock is set back on the way", async () => {
  await using own = await serve();
  own.path.otherwise = replied(400);
  const ask = async (target: string, body: object): Promise<{ id: string }> => {
    const token = target === "/events" ? PUBLISH_TOKEN : undefined;
    return (await own.ask("POST", target, { body, ...(token && { token }) })).json.data as unknown as { id: string };
  };
  for (let i = 0; i < 2; i++) await ask("/api-keys/key_1/webhooks", { ...HOOK, url: `https://hooks.example.com/${i}` });
  await own.path.start();
  const { id } = await ask("/events", { type: "deposit:paid", keyId: "key_1", data: {} });
  for (let attempts = 1; attempts <= RETRY.attempts; attempts++) {
    await own.path.whenSent(2 * attempts);
    await own.path.clock.advance(RETRY.maxDelayMs);
  }
  const { commit } = own.path.storage;
  own.path.storage.commit = async (changes) => {
    await commit(changes);
    if (!changes.some(({ key }) => key.startsWith("due:"))) return;
    own.path.storage.commit = commit;
    await own.path.clock.step(-3_600_000);
  };
  own.path.otherwise = replied(200);
  expect(await ask("/api-keys/key_1/replay", {})).toMatchObject({ replayed: 2 });
  await own.path.clock.advance(2_000);
  expect(await own.path.status(id)).toBe("delivered");
});

describe("the catalogue", () => {
  it("names the keys that a token owns and that are in use", async () => {
    const own = await api.ask("GET", "/api-keys", { token: "key_f,key_a,key_never" });
    expect(own.json.data).toEqual([{ id: "key_a" }, { id: "key_f" }]);
    expect((await api.ask("GET", "/api-keys", { token: "none" })).json.data).toEqual([]);
    const first = await api.ask("GET", "/api-keys?limit=1");
    expect(first.json.data).toEqual([{ id: "key_a" }]);
    const second = await api.ask("GET", `/api-keys?limit=1&cursor=${first.json.meta?.nextCursor ?? ""}`);
    expect(second.json.data).toEqual([{ id: "key_del" }]);
  });

  it("names the types of events in use", async () => {
    expect((await api.ask("GET", "/event-types")).json.data).toEqual([
      { name: "deposit:paid" },
      { name: "withdraw:sent" },
    ]);
  });

  it("names to a token of some keys the types used on these, page by page, and the configured ones", async () => {
    await using one = await serve({ more: { events: () => ["shared:name"] } });
    const publish = async (keyId: string, type: string): Promise<void> =>
      void (await one.path.publish(type, { keyId }));
    for (const type of ["b:two", "a:one", "a.one", "a-one"]) await publish("key_1", type);
    await publish("key_2", "c:three");
    await publish("key_2", "a:one");
    await publish("key:2", "secret:plan");
    const names = async (token: string, query = ""): Promise<readonly string[]> =>
      ((await one.ask("GET", `/event-types${query}`, { token })).json.data as unknown as { name: string }[]).map(
        ({ name }) => name,
      );
    expect(new Set(await names("key_1"))).toEqual(new Set(["a:one", "a.one", "a-one", "b:two", "shared:name"]));
    expect(await names("key_2")).toEqual(["a:one", "c:three", "shared:name"]);
    expect(await names("key:2")).toEqual(["secret:plan", "shared:name"]);
    expect(await names("key,key_")).toEqual(["shared:name"]);
    expect(await names("none")).toEqual(["shared:name"]);
    const all = await names("all");
    expect(all).toHaveLength(7);

    for (const token of ["all", "key_1,key_2"]) {
      const paged: string[] = [];
      let query = "?limit=2";
      for (;;) {
        const { json } = await one.ask("GET", `/event-types${query}`, { token });
        paged.push(...(json.data as unknown as { name: string }[]).map(({ name }) => name));
        if (json.meta?.nextCursor === undefined) break;
        query = `?limit=2&cursor=${json.meta.nextCursor}`;
      }
      expect(paged).toEqual(await names(token));
    }
    const mine = await one.ask("GET", "/event-types?limit=1", { token: "key_1" });
    const theirs = await one.ask("GET", `/event-types?cursor=${mine.json.meta?.nextCursor ?? ""}`, { token: "key_2" });
    expect(theirs.status).toBe(400);
  });

  it("shows names of the first edition, which are under no key, to tokens of every key alone", async () => {
    await using one = await serve();
    await one.path.storage.commit([{ op: "put", key: "type:old~name", value: "1" }]);
    const names = async (token: string) => (await one.ask("GET", "/event-types", { token })).json.data;
    expect(await names("all")).toEqual([{ name: "old:name" }]);
    expect(await names("key_1")).toEqual([]);
    // The next event of that name on a key names it there.
    await one.path.publish("old:name", { keyId: "key_1" });
    expect(await names("key_1")).toEqual([{ name: "old:name" }]);
  });
});
