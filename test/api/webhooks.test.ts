import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { HOOK, LIST, serve } from "./serve.ts";
import type { Got, Served } from "./serve.ts";

let api: Served;
beforeAll(async () => {
  api = await serve();
});
afterAll(() => api[Symbol.asyncDispose]());

const view = (got: Got): Record<string, unknown> => got.json.data as unknown as Record<string, unknown>;
const create = async (more: object = {}, keyId = "key_1"): Promise<Record<string, unknown>> => {
  const got = await api.ask("POST", `/api-keys/${keyId}/webhooks`, { body: { ...HOOK, ...more } });
  expect(got.status, got.text).toBe(201);
  return view(got);
};

describe("a subscription", () => {
  it("is created with its secret, its place and exactly the fields of the interface", async () => {
    const got = await api.ask("POST", LIST, { body: HOOK });
    expect(got.status).toBe(201);
    expect(Object.keys(view(got))).toEqual(["id", "url", "events", "secret", "status", "createdAt"]);
    expect(view(got)).toMatchObject({ ...HOOK, status: "active" });
    expect(view(got)["secret"]).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(got.headers.location).toBe(`${LIST}/${String(view(got)["id"])}`);
    expect(got.json.meta).toEqual({ timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) });
    expect(got.headers).toMatchObject({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
  });

  it("of a URL that another one of the key has is created with a warning that names it", async () => {
    const first = await create({}, "key_twice");
    const other = await api.ask("POST", "/api-keys/key_twice/webhooks", { body: { ...HOOK, url: `${HOOK.url}?b` } });
    expect(other.json.meta).not.toHaveProperty("warnings");
    const second = await api.ask("POST", "/api-keys/key_twice/webhooks", { body: HOOK });
    expect([second.status, second.json.meta]).toMatchObject([
      201,
      { warnings: [`${String(first["id"])} has the same URL: an event that both want is sent to it twice`] },
    ]);
  });

  it("never shows its secret again", async () => {
    const { id, secret } = await create({}, "key_shown");
    const list = await api.ask("GET", "/api-keys/key_shown/webhooks");
    expect(list.json.data).toHaveLength(1);
    expect(Object.keys((list.json.data as unknown as object[])[0] as object)).toEqual([
      "id",
      "url",
      "events",
      "status",
      "createdAt",
    ]);
    const one = await api.ask("GET", `/api-keys/key_shown/webhooks/${String(id)}`);
    const updated = await api.ask("PATCH", `/api-keys/key_shown/webhooks/${String(id)}`, {
      body: { status: "disabled" },
    });
    expect(Object.keys(view(updated))).toEqual(["id", "url", "events", "status", "updatedAt"]);
    for (const got of [list, one, updated]) expect(got.text).not.toContain(secret);
    for await (const { value } of rows()) expect(value).not.toContain(String(secret));
  });

  async function* rows(): AsyncGenerator<{ readonly value: string }> {
    yield* await api.path.storage.range("", { limit: 10_000 });
  }

  it("keeps what an update leaves out", async () => {
    const { id } = await create({ description: "one" });
    const patched = await api.ask("PATCH", `${LIST}/${String(id)}`, { body: { events: ["a:b", "a:b", "c.*"] } });
    expect(view(patched)).toMatchObject({
      url: HOOK.url,
      events: ["a:b", "c.*"],
      status: "active",
      description: "one",
    });
    const cleared = await api.ask("PATCH", `${LIST}/${String(id)}`, { body: { description: null } });
    expect(view(cleared)).not.toHaveProperty("description");
  });

  it("is gone after a delete, and so is everything that was secret about it", async () => {
    const { id } = await create({ headers: { "X-Token": "hunter2" } });
    const deleted = await api.ask("DELETE", `${LIST}/${String(id)}`);
    expect([deleted.status, deleted.text]).toEqual([204, ""]);
    for (const method of ["GET", "DELETE"]) {
      expect((await api.ask(method, `${LIST}/${String(id)}`)).json.code).toBe("NOT_FOUND");
    }
    const stored = await api.path.storage.getItem(`subscription:key_1:${String(id)}`);
    expect(JSON.parse(stored ?? "")).toMatchObject({ url: "", secrets: [], generation: 2 });
    expect(stored).not.toContain("headers");
  });

  it("whose deletion was answered 503 is gone, and the repeat ends its attempts and answers 204", async () => {
    await using one = await serve();
    const { queue } = one.path.storage;
    let failing = true;
    const cancelled: string[] = [];
    const cancel = queue.cancel.bind(queue);
    queue.cancel = async (id) => {
      if (failing) throw new StorageError("unavailable", "the test says so");
      cancelled.push(id);
      await cancel(id);
    };
    const { id } = (await one.ask("POST", LIST, { body: HOOK })).json.data as unknown as { readonly id: string };
    const cut = await one.ask("DELETE", `${LIST}/${id}`);
    expect([cut.status, cut.json.code]).toEqual([503, "STORAGE_UNAVAILABLE"]);
    expect((await one.ask("GET", `${LIST}/${id}`)).status).toBe(404);
    failing = false;
    expect((await one.ask("DELETE", `${LIST}/${id}`)).status).toBe(204);
    expect(cancelled).toEqual([id]);
    expect((await one.ask("DELETE", `${LIST}/${id}`)).status).toBe(404);
  });

  it("tells optional fields, and header values never", async () => {
    const options = {
      description: "billing",
      rateLimit: { perSecond: 5 },
      timeoutMs: 5_000,
      retry: { attempts: 3, firstDelayMs: 100, factor: 2, maxDelayMs: 1_000 },
    };
    const made = await create({ ...options, headers: { "X-Token": "hunter2", Authorization: "Basic abc" } });
    expect(made).toMatchObject({ ...options, headers: { "X-Token": null, Authorization: null } });
    for await (const { value } of rows()) expect(value).not.toContain("hunter2");
  });

  it("drops every header value when its origin changes, but those given again", async () => {
    const { id } = await create({ headers: { "X-Old": "one", "X-New": "two" } });
    const target = `${LIST}/${String(id)}`;
    const same = await api.ask("PATCH", target, { body: { url: "https://HOOKS.example.com:443/other" } });
    expect(view(same)["headers"]).toEqual({ "X-Old": null, "X-New": null });
    const moved = await api.ask("PATCH", target, {
      body: { url: "https://elsewhere.example.com/", headers: { "X-Old": null, "X-New": "three" } },
    });
    expect(view(moved)["headers"]).toEqual({ "X-New": null });
    const again = await api.ask("PATCH", target, { body: { url: "https://third.example.com/" } });
    expect(view(again)).not.toHaveProperty("headers");
  });

  it.each(["Keep-Alive", "HTTP2-Settings", "X-Relay-Event", "Content-Type", "Host"])(
    "is refused with a header of the connection or of the relay (%s)",
    async (name) => {
      const got = await api.ask("POST", LIST, { body: { ...HOOK, headers: { [name]: "x" } } });
      expect([got.status, got.json.errors]).toEqual([
        400,
        [{ path: `headers.${name}`, message: "is the relay's own" }],
      ]);
    },
  );

  it("keeps a header by null, removes it by leaving it out, and clears them all by null", async () => {
    const { id } = await create({ headers: { "X-One": "1", "X-Two": "2" } });
    const target = `${LIST}/${String(id)}`;
    const kept = await api.ask("PATCH", target, { body: { headers: { "x-one": null } } });
    expect(view(kept)["headers"]).toEqual({ "x-one": null });
    const wrong = await api.ask("PATCH", target, { body: { headers: { "X-Two": null } } });
    expect([wrong.status, wrong.json.errors?.[0]?.path]).toEqual([400, "headers.X-Two"]);
    expect(view(await api.ask("PATCH", target, { body: { headers: null } }))).not.toHaveProperty("headers");
  });

  it("cannot be more than the cap, whoever comes at once", async () => {
    const asked = await Promise.all(
      Array.from({ length: 60 }, () => api.ask("POST", "/api-keys/key_cap/webhooks", { body: HOOK })),
    );
    expect(asked.filter(({ status }) => status === 201)).toHaveLength(50);
    expect(asked.filter(({ json }) => json.code === "SUBSCRIPTION_LIMIT_REACHED")).toHaveLength(10);
    const list = (await api.ask("GET", "/api-keys/key_cap/webhooks")).json.data as unknown as { id: string }[];
    expect(list).toHaveLength(50);
    expect((await api.ask("DELETE", `/api-keys/key_cap/webhooks/${list[0]?.id ?? ""}`)).status).toBe(204);
    expect((await api.ask("POST", "/api-keys/key_cap/webhooks", { body: HOOK })).status).toBe(201);
    expect((await api.ask("POST", "/api-keys/key_cap/webhooks", { body: HOOK })).status).toBe(409);
  });

  it("loses no change when many are made at once", async () => {
    const { id } = await create();
    const bodies = [{ description: "d" }, { timeoutMs: 2_000 }, { rateLimit: { perSecond: 1 } }, { events: ["x"] }];
    const all = await Promise.all(bodies.map((body) => api.ask("PATCH", `${LIST}/${String(id)}`, { body })));
    expect(all.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(view(await api.ask("GET", `${LIST}/${String(id)}`))).toMatchObject(Object.assign({}, ...bodies) as object);
  });
});

describe("wrong fields", () => {
  it("of a retry policy: a list of waits stands alone, and has its bounds", async () => {
    const wrong = async (retry: object): Promise<unknown> => {
      const body = { url: "https://receiver.example/x", events: ["a:b"], retry };
      const { status, json } = await api.ask("POST", LIST, { body });
      return [status, json.errors?.map(({ path }) => path)];
    };
    expect(await wrong({ attempts: 3, delaysMs: [1_000, 1_000] })).toEqual([400, ["retry.delaysMs"]]);
    expect(await wrong({ delaysMs: [] })).toEqual([400, ["retry.delaysMs"]]);
    expect(await wrong({ delaysMs: [1, 259_200_001, 1.5] })).toEqual([
      400,
      ["retry.delaysMs[0]", "retry.delaysMs[1]", "retry.delaysMs[2]"],
    ]);
  });

  it("are all named at once", async () => {
    const body = { url: "http://x", events: ["ok", "not ok", 7], retry: { attempts: 9 }, surprise: 1 };
    const got = await api.ask("POST", LIST, { body });
    expect([got.status, got.json.code]).toEqual([400, "VALIDATION_FAILED"]);
    expect(got.json.errors?.map(({ path }) => path).toSorted()).toEqual([
      "events[1]",
      "events[2]",
      "retry.attempts",
      "surprise",
      "url",
    ]);
  });

  it.each([
    ["no URL", { events: ["a"] }],
    ["an empty URL", { ...HOOK, url: "" }],
    ["a URL that is no text", { ...HOOK, url: ["https://a.example"] }],
    ["a URL of 2,049 characters", { ...HOOK, url: `https://a.example/${"a".repeat(2_031)}` }],
    ["another scheme", { ...HOOK, url: "http://hooks.example.com/" }],
    ["a script", { ...HOOK, url: "javascript:alert(1)" }],
    ["no events", { ...HOOK, events: [] }],
    ["101 events", { ...HOOK, events: Array.from({ length: 101 }, (_, i) => `e${i}`) }],
    ["an event of 129 characters", { ...HOOK, events: ["a".repeat(129)] }],
    ["a header of the relay's own", { ...HOOK, headers: { "Webhook-Id": "x" } }],
    ["a header that would split", { ...HOOK, headers: { "X-A": "a\r\nX-B: b" } }],
    ["a header name that is none", { ...HOOK, headers: { "X A": "a" } }],
    ["a header twice", { ...HOOK, headers: { "X-A": "a", "x-a": "b" } }],
    ["21 headers", { ...HOOK, headers: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`X-${i}`, "v"])) }],
    ["a header without a value to keep", { ...HOOK, headers: { "X-A": null } }],
    ["an id of one's own", { ...HOOK, id: "sub_mine" }],
    ["a prototype", '{"url":"https://a.example/","events":["a"],"__proto__":{"x":1}}'],
    ["a list", [HOOK]],
    ["null", "null"],
  ])("are refused: %s", async (_, body) => {
    const got = await api.ask("POST", LIST, { body });
    expect([got.status, got.json.code]).toEqual([400, "VALIDATION_FAILED"]);
    expect(got.json.errors?.length).toBeGreaterThan(0);
  });
});

describe("rotate-secret", () => {
  const rotate = async (body?: unknown, token = "all+mfa"): Promise<Got> => {
    const { id } = await create({}, "key_rotate");
    return api.ask("POST", `/api-keys/key_rotate/webhooks/${String(id)}/rotate-secret`, { body, token });
  };

  it("asks for a fresh second factor, and says what would do (RFC 9470)", async () => {
    for (const token of ["all", "all+mfa+old"]) {
      const got = await rotate({}, token);
      expect([got.status, got.json.code]).toEqual([401, "STEP_UP_REQUIRED"]);
      expect(got.headers["www-authenticate"]).toMatch(
        /^Bearer error="insufficient_user_authentication", .*acr_values="mfa", max_age="300"$/,
      );
    }
  });

  it("gives a new secret and lets the old one live for a day", async () => {
    const got = await rotate();
    expect([got.status, Object.keys(view(got))]).toEqual([
      200,
      ["id", "url", "events", "status", "secret", "updatedAt", "previousSecretExpiresAt"],
    ]);
    const day = Date.parse(String(view(got)["previousSecretExpiresAt"])) - Date.parse(String(view(got)["updatedAt"]));
    expect(day).toBe(86_400_000);
  });

  it("ends the old one at once when asked to", async () => {
    expect(view(await rotate({ overlapSeconds: 0 }))["previousSecretExpiresAt"]).toBeNull();
    for (const overlapSeconds of [-1, 604_801, 1.5, "10"]) {
      expect((await rotate({ overlapSeconds })).json.errors?.[0]?.path).toBe("overlapSeconds");
    }
  });

  it("has one winner when two come at once, and at most two secrets live", async () => {
    const { id } = await create({}, "key_race");
    const target = `/api-keys/key_race/webhooks/${String(id)}/rotate-secret`;
    const both = await Promise.all([1, 2].map(() => api.ask("POST", target, { token: "all+mfa" })));
    const statuses = both.map(({ status }) => status).toSorted();
    expect([
      [200, 409],
      [200, 200],
    ]).toContainEqual(statuses);
    await api.ask("POST", target, { token: "all+mfa" });
    const stored = JSON.parse((await api.path.storage.getItem(`subscription:key_race:${String(id)}`)) ?? "") as {
      secrets: { expiresAt?: number }[];
    };
    expect(stored.secrets).toHaveLength(2);
    expect(stored.secrets.map(({ expiresAt }) => expiresAt === undefined)).toEqual([true, false]);
  });
});

describe("whose key it is", () => {
  it("is not told: foreign, malformed and unknown keys answer alike", async () => {
    await create({}, "key_foreign");
    const targets = ["key_foreign", "key_unknown", "no%20key", "k".repeat(65)].map((k) => `/api-keys/${k}/webhooks`);
    const answers = await Promise.all(targets.map((target) => api.ask("GET", target, { token: "key_1" })));
    for (const got of answers) {
      const { instance: _, ...rest } = got.json;
      expect([got.status, rest]).toEqual([404, { ...rest, code: "NOT_FOUND", detail: answers[0]?.json["detail"] }]);
      expect(Object.keys(got.headers)).toEqual(Object.keys(answers[0]?.headers ?? {}));
    }
  });

  it("may hold a colon, written as it is or encoded", async () => {
    await create({}, "team:one");
    for (const target of ["/api-keys/team:one/webhooks", "/api-keys/team%3Aone/webhooks"]) {
      expect((await api.ask("GET", target)).json.data).toHaveLength(1);
    }
  });

  it("is checked after the fields and before the resource", async () => {
    const wrong = await api.ask("POST", "/api-keys/key_other/webhooks", { token: "key_1", body: {} });
    expect(wrong.json.code).toBe("VALIDATION_FAILED");
    const foreign = await api.ask("POST", "/api-keys/key_other/webhooks", { token: "key_1", body: HOOK });
    expect(foreign.json.code).toBe("NOT_FOUND");
  });

  it("stands in the audit trail with what was done to it", async () => {
    const { id } = await create({}, "key_audit");
    await api.ask("PATCH", `/api-keys/key_audit/webhooks/${String(id)}`, { body: { status: "disabled" } });
    await api.ask("DELETE", `/api-keys/key_audit/webhooks/${String(id)}`);
    const got = await api.ask("GET", "/api-keys/key_audit/audit");
    const lines = got.json.data as unknown as Record<string, unknown>[];
    expect(lines.map(({ action }) => action)).toEqual([
      "subscription.deleted",
      "subscription.updated",
      "subscription.created",
    ]);
    expect(lines[1]).toMatchObject({
      by: "user-all",
      address: "127.0.0.1",
      target: id,
      result: "done",
      detail: "status",
    });
  });
});
