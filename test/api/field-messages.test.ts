/** Messages on a wrong field are our own sentences, never those of the schema library. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { HOOK, LIST, serve } from "./serve.ts";
import type { Served } from "./serve.ts";

let api: Served;
beforeAll(async () => {
  api = await serve();
});
afterAll(() => api[Symbol.asyncDispose]());

const told = async (method: string, path: string, body?: unknown): Promise<Readonly<Record<string, string>>> => {
  const { status, json } = await api.ask(method, path, body === undefined ? {} : { body });
  expect(status).toBe(400);
  const errors = json.errors as unknown as readonly { readonly path: string; readonly message: string }[];
  return Object.fromEntries(errors.map(({ path, message }) => [path, message]));
};

it.each([
  [{ ...HOOK, events: [] }, { events: "choose at least one event" }],
  [{ url: HOOK.url }, { events: "is missing" }],
  [{ ...HOOK, events: "deposit:paid" }, { events: "must be a list" }],
  [{ ...HOOK, events: [7] }, { "events[0]": "must be text" }],
  [{ ...HOOK, url: 7 }, { url: "must be text" }],
  [{ ...HOOK, url: `https://${"a".repeat(2_048)}` }, { url: "must have at most 2048 characters" }],
  [{ ...HOOK, retry: { attempts: 6 } }, { "retry.attempts": "must be a whole number from 1 to 5" }],
  [{ ...HOOK, retry: { attempts: 1.5 } }, { "retry.attempts": "must be a whole number from 1 to 5" }],
  [{ ...HOOK, retry: { attempts: "3" } }, { "retry.attempts": "must be a whole number from 1 to 5" }],
  [{ ...HOOK, retry: { tries: 3 } }, { "retry.tries": "is not known" }],
  [{ ...HOOK, rateLimit: {} }, { "rateLimit.perSecond": "is missing" }],
  [{ ...HOOK, rateLimit: { perSecond: 0 } }, { "rateLimit.perSecond": "must be a number from 0.01 to 10000" }],
  [{ ...HOOK, timeoutMs: 10 }, { timeoutMs: "must be a whole number from 1000 to 30000" }],
  [{ ...HOOK, headers: { "X-A": 1 } }, { "headers.X-A": "must be text" }],
  [[], { "": "must be an object" }],
  [{ ...HOOK, colour: "x" }, { colour: "is not known" }],
  [
    { ...HOOK, secret: "x" },
    {
      secret:
        "must be whsec_ and then base64 with its padding (=), such as whsec_ and what this prints: openssl rand -base64 32",
    },
  ],
])("a subscription of %j is refused in plain words", async (body, messages) => {
  expect(await told("POST", LIST, body)).toEqual(messages);
});

it("a receiver without TLS is told what the relay needs, and on this machine how to call it", async () => {
  const message = async (url: string): Promise<string | undefined> =>
    (await told("POST", LIST, { ...HOOK, url }))["url"];
  expect(await message("ftp://hooks.example.com")).toBe("must start with https://");
  expect(await message("http://hooks.example.com/a")).toBe("must start with https://: nothing is sent unencrypted");
  const here = await message("http://localhost:3000");
  expect(here).toContain("relay listen");
  expect(here).toContain('guard: { allow: ["localhost:3000"] }');
});

it("other bodies and queries are refused in plain words too", async () => {
  expect(await told("PATCH", `${LIST}/sub_1`, { status: "paused" })).toEqual({
    status: "must be one of: active, disabled",
  });
  expect(await told("GET", "/api-keys/key_1/events?since=yesterday&status=lost&limit=0")).toEqual({
    since: "must be a time with its zone, such as 2026-11-20T10:00:00Z",
    status: "must be one of: pending, delivered, failed, cancelled, unmatched",
    limit: "must be 1 to 200",
  });
  expect(await told("POST", "/api-keys/key_1/replay", { limit: 0, dryRun: "yes", perSecond: null })).toEqual({
    limit: "must be a whole number from 1 to 10000",
    dryRun: "must be true or false",
    perSecond: "must be a number from 0.1 to 1000",
  });
});

it("no field of any operation is refused in the words of the schema library", async () => {
  const values = [null, undefined, 1e9, -1, 0.5, "", "x".repeat(3_000), true, [], [[]], {}, { a: 1 }];
  const fields = ["url", "events", "status", "description", "rateLimit", "timeoutMs", "retry", "headers", "since"];
  for (const [method, path] of [
    ["POST", LIST],
    ["PATCH", `${LIST}/sub_1`],
    ["POST", "/api-keys/key_1/replay"],
    ["POST", "/api-keys/key_1/events/evt_1/replay"],
  ] as const) {
    for (const value of values) {
      const body = Object.fromEntries(fields.map((field) => [field, value]));
      const inner = { ...HOOK, retry: body, rateLimit: body, headers: body };
      for (const given of [body, inner, value]) {
        const { json } = await api.ask(method, path, { body: given });
        for (const { message } of (json.errors ?? []) as readonly { message: string }[])
          expect(message).not.toMatch(/invalid|expected|received|too (?:big|small)|unrecognized|pattern/i);
      }
    }
  }
});
