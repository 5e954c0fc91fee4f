// Every refused request is in the log under the id that its answer names; a flood of them is counted instead.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createRefusalLog } from "../../core/api/http/refusal-log.ts";
import { testClock } from "../support/clock.ts";
import { quietLog } from "../support/quiet.ts";
import { LIST, PUBLISH_TOKEN, serve } from "./serve.ts";
import type { AskOptions, Served } from "./serve.ts";

let api: Served;
beforeAll(async () => {
  api = await serve({ rows: { "GET /api-keys": { perMinute: 1, per5s: 1 } } });
});
afterAll(() => api[Symbol.asyncDispose]());

describe("a refused request", () => {
  const publish = { token: PUBLISH_TOKEN };
  const event = JSON.stringify({ type: "a:b", keyId: "key_1", data: 1 });
  it.each<readonly [number, string, string, string, AskOptions]>([
    [401, "GET", LIST, "/api-keys/{keyId}/webhooks", { token: "bad" }],
    [404, "GET", "/nowhere?token=secret", "none", { token: false }],
    [405, "PUT", "/events", "none", { token: false }],
    [401, "POST", "/events", "/events", { token: "wrong", body: event }],
    [415, "POST", "/events", "/events", { ...publish, body: event, headers: { "content-type": "text/plain" } }],
    [400, "POST", "/events", "/events", { ...publish, body: "{" }],
    [400, "POST", "/events", "/events", { ...publish, body: { type: "a:b", keyId: "key_1", data: 1, extra: 2 } }],
    [400, "POST", LIST, "/api-keys/{keyId}/webhooks", { body: {} }],
    [404, "GET", "/api-keys/foreign/webhooks", "/api-keys/{keyId}/webhooks", { token: "key_1" }],
  ])("%i of %s %s has one line with its id, code and address", async (status, method, target, route, options) => {
    const before = api.log.lines.length;
    const got = await api.ask(method, target, options);
    expect(got.status).toBe(status);
    const lines = api.log.lines.slice(before).filter(({ fields }) => fields["requestId"] === got.json["instance"]);
    expect(lines).toHaveLength(1);
    expect(lines[0]?.fields).toMatchObject({ method, route, status, code: got.json.code, address: "127.0.0.1" });
    expect(got.headers["x-request-id"]).toBe(got.json["instance"]);
    expect(JSON.stringify(lines)).not.toContain("secret");
  });

  it("by a limit has one too, though its token is good", async () => {
    await api.ask("GET", "/api-keys");
    const got = await api.ask("GET", "/api-keys");
    expect(got.status).toBe(429);
    const [line] = api.log.lines.filter(({ fields }) => fields["requestId"] === got.json["instance"]);
    expect(line?.fields).toMatchObject({ route: "/api-keys", status: 429, code: got.json.code, address: "127.0.0.1" });
  });
});

describe("a flood of refused requests", () => {
  it("writes so many lines a minute, and says how many it left out", async () => {
    const clock = testClock();
    const log = quietLog();
    const refuse = createRefusalLog({ clock, log });
    for (let i = 0; i < 1_000; i++) refuse("203.0.113.7", { status: 401 });
    refuse("203.0.113.8", { status: 401 });
    expect(log.lines.filter(({ fields }) => fields["address"] === "203.0.113.7")).toHaveLength(20);
    expect(log.lines.filter(({ fields }) => fields["address"] === "203.0.113.8")).toHaveLength(1);
    await clock.advance(60_000);
    expect(log.lines.at(-1)).toMatchObject({ level: "warn", fields: { count: 980 } });

    log.lines.length = 0;
    for (let i = 0; i < 100_000; i++) refuse(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, { status: 401 });
    expect(log.lines).toHaveLength(200);
    // One household is one address, whichever of its own it uses.
    await clock.advance(60_000);
    expect(log.lines.at(-1)).toMatchObject({ fields: { count: 99_800 } });
    log.lines.length = 0;
    for (let i = 0; i < 100; i++) refuse(`2001:db8::${i.toString(16)}`, { status: 401 });
    expect(log.lines).toHaveLength(20);
  });
});
