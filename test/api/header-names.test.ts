// Names of headers as they are on the wire: spelled as the interface spells them, each once, on answers of every kind.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HOOK, LIST, PUBLISH_TOKEN, serve } from "./serve.ts";
import type { Served } from "./serve.ts";
import { startThrough } from "./through.ts";
import type { Through } from "./through.ts";

const LIMITS = [
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
  "X-Burst-Limit",
  "X-Burst-Remaining",
  "X-Burst-Reset",
  "RateLimit-Policy",
  "RateLimit",
];

let api: Served;
let through: Through;
beforeAll(async () => {
  through = await startThrough();
  api = await serve({
    rows: { [`POST ${LIST.replace("key_1", "{keyId}")}`]: { perMinute: 2, per5s: 2 } },
    routes: through.routes,
  });
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await through[Symbol.asyncDispose]();
});

/** Status and names of the headers, without what Node adds by itself. */
async function names(
  method: string,
  path: string,
  headers: Record<string, string>,
  body = "",
): Promise<readonly string[]> {
  const lines = Object.entries({ ...headers, "Content-Length": String(body.length) }).map(([k, v]) => `${k}: ${v}\r\n`);
  const text = await api.raw(
    `${method} ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${lines.join("")}\r\n${body}`,
  );
  const [status = "", ...rest] = (text.split("\r\n\r\n")[0] ?? "").split("\r\n");
  const found = rest.map((line) => line.slice(0, line.indexOf(":")));
  expect(new Set(found.map((name) => name.toLowerCase())).size, `${path} ${found.join()}`).toBe(found.length);
  return [status.slice(9, 12), ...found.filter((name) => !["Date", "Connection", "Keep-Alive"].includes(name))];
}
const json = { "Content-Type": "application/json" };
const ours = { ...json, Authorization: "Bearer all" };
const always = ["X-Request-Id", "Cache-Control", "X-Content-Type-Options", "Content-Type", "Content-Length"];

describe("the names of headers", () => {
  it("of management answers are spelled as in the interface, on success and on refusal", async () => {
    const body = JSON.stringify(HOOK);
    expect((await names("POST", LIST, ours, body)).toSorted()).toEqual(
      ["201", "Location", ...LIMITS, ...always].toSorted(),
    );
    await names("POST", LIST, ours, body);
    expect((await names("POST", LIST, ours, body)).toSorted()).toEqual(
      ["429", "Retry-After", ...LIMITS, ...always].toSorted(),
    );
  });

  it("of /v1 are the same, also where the relay refuses", async () => {
    const key = { "X-Client-Key": "spelled" };
    for (let i = 0; i < 3; i++) {
      const passed = await names("GET", "/v1/scopes", key);
      expect(passed).toEqual(expect.arrayContaining(LIMITS));
    }
    expect((await names("GET", "/v1/scopes", key)).toSorted()).toEqual(
      ["429", "Retry-After", ...LIMITS, ...always].toSorted(),
    );
  });

  it("of other problems are spelled like them, and a challenge stands there once", async () => {
    const refused = { ...json, Authorization: "Bearer bad" };
    for (const path of [LIST, "/events"])
      expect((await names("POST", path, refused, "{}")).toSorted()).toEqual(
        ["401", "WWW-Authenticate", ...always].toSorted(),
      );
    const rotate = `${LIST}/sub_none/rotate-secret`;
    expect(await names("POST", rotate, ours)).toContain("WWW-Authenticate");
    expect(await names("PUT", LIST, ours)).toEqual(expect.arrayContaining(["405", "Allow"]));
    const media = { Authorization: `Bearer ${PUBLISH_TOKEN}`, "Content-Type": "text/plain" };
    expect(await names("POST", "/events", media, "{}")).toEqual(expect.arrayContaining(["415", "Accept"]));
  });

  it("and the fields of a new subscription stand in the order of the interface", async () => {
    await api.path.clock.advance(61_000);
    const { text } = await api.ask("POST", LIST, { body: HOOK });
    expect(Object.keys((JSON.parse(text) as { data: object }).data)).toEqual([
      "id",
      "url",
      "events",
      "secret",
      "status",
      "createdAt",
    ]);
  });
});
