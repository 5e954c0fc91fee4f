// Every refused or failed request is in the log under the id that its answer names; a flood of them is counted instead.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLineBound } from "../../core/lib/line-bound.ts";
import { testClock } from "../support/clock.ts";
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
    const leftOut: number[] = [];
    const mayTell = createLineBound(clock, (count) => leftOut.push(count));
    const told = (count: number, group: (i: number) => string): number =>
      Array.from({ length: count }, (_, i) => mayTell(group(i))).filter(Boolean).length;
    expect(told(1_000, () => "203.0.113.7")).toBe(20);
    expect(told(1, () => "203.0.113.8")).toBe(1);
    await clock.advance(60_000);
    expect(leftOut).toEqual([980]);

    expect(told(100_000, (i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`)).toBe(200);
    await clock.advance(60_000);
    expect(leftOut).toEqual([980, 99_800]);
  });

  it("counts a household as one address, whichever of its own it uses", async () => {
    await using behind = await serve({ trustedProxies: ["127.0.0.1"] });
    for (let i = 0; i < 30; i++) {
      const headers = { "x-forwarded-for": `2001:db8::${i.toString(16)}` };
      await behind.ask("GET", "/nowhere", { token: false, headers });
    }
    expect(behind.log.lines.filter(({ message }) => message === "request refused")).toHaveLength(20);
  });
});

describe("a flood of failed requests", () => {
  it("is bounded too, and its first ones are told whole", async () => {
    await using broken = await serve({
      routes: [
        {
          method: "GET",
          path: "/broken/{part}",
          handle: ({ params }) => Promise.reject(new Error(`no more room in ${params["part"]}`)),
        },
      ],
    });
    const { lines } = broken.log;
    const of = (message: string) => lines.filter((line) => line.message === message);
    for (let i = 0; i < 30; i++) expect((await broken.ask("GET", "/broken/disk", { token: false })).status).toBe(500);
    expect(of("a request failed")).toHaveLength(20);
    expect(of("request")).toHaveLength(20);
    // Another fault is not hidden by them.
    const other = await broken.ask("GET", "/broken/memory", { token: false });
    const line = { fields: { requestId: other.json["instance"], detail: "no more room in memory" } };
    expect(of("a request failed").at(-1)).toMatchObject(line);
    await broken.path.clock.advance(60_000);
    await expect.poll(() => lines.at(-1)).toMatchObject({ level: "error", fields: { count: 10 } });
  });
});
