// The order of checks: of any two things that are wrong with a request, the earlier one is answered.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { COUNT } from "../../core/model/schema.ts";
import type { ProblemCode } from "../../core/model/problem.ts";
import { HOOK, serve } from "../api/serve.ts";
import type { Served } from "../api/serve.ts";

/** Faults of a request, in the order in which they are answered. */
const FAULTS = [
  ["head", 400, "VALIDATION_FAILED"],
  ["path", 404, "NOT_FOUND"],
  ["method", 405, "METHOD_NOT_ALLOWED"],
  ["token", 401, "UNAUTHENTICATED"],
  ["limit", 429, "RATE_LIMIT_EXCEEDED"],
  ["type", 415, "UNSUPPORTED_MEDIA_TYPE"],
  ["size", 413, "PAYLOAD_TOO_LARGE"],
  ["json", 400, "INVALID_JSON"],
  ["fields", 400, "VALIDATION_FAILED"],
  ["key", 404, "NOT_FOUND"],
  ["factor", 401, "STEP_UP_REQUIRED"],
  ["resource", 404, "NOT_FOUND"],
  ["url", 422, "URL_NOT_ALLOWED"],
  ["cap", 409, "SUBSCRIPTION_LIMIT_REACHED"],
  ["storage", 503, "STORAGE_UNAVAILABLE"],
] as const satisfies readonly (readonly [string, number, ProblemCode])[];
type Fault = (typeof FAULTS)[number][0];

/** The operations, with what can go wrong with each of them. */
const OPERATIONS = [
  { name: "create", method: "POST", tail: "", body: HOOK, not: ["factor", "resource"] },
  { name: "update", method: "PATCH", tail: "/{id}", body: { description: "x" }, not: ["factor", "cap"] },
  { name: "rotate", method: "POST", tail: "/{id}/rotate-secret", body: { overlapSeconds: 1 }, not: ["url", "cap"] },
  {
    name: "delete",
    method: "DELETE",
    tail: "/{id}",
    body: undefined,
    not: ["type", "size", "json", "fields", "factor", "url", "cap"],
  },
  {
    name: "show",
    method: "GET",
    tail: "/{id}",
    body: undefined,
    not: ["type", "size", "json", "fields", "factor", "url", "cap", "storage"],
  },
] as const;

const row = { perMinute: 1, per5s: 1 };
let api: Served;
let id: string;
let broken = false;
beforeAll(async () => {
  const rows = Object.fromEntries(
    OPERATIONS.map(({ method, tail }) => [
      `${method} /api-keys/{keyId}/webhooks${tail.replace("{id}", "{subscriptionId}")}`,
      row,
    ]),
  );
  const refused = { ok: false, reason: "private", message: "is not public" } as const;
  const register = async (url: string) => (url.includes("10.0.0.1") ? refused : { ok: true as const, href: url });
  api = await serve({ rows, registerUrl: register });
  id = ((await api.ask("POST", "/api-keys/key_1/webhooks", { body: HOOK })).json.data as unknown as { id: string }).id;
  const { storage } = api.path;
  await storage.commit([{ op: "put", key: COUNT.key({ keyId: "key_full" }), value: "1000" }]);
  const commit = storage.commit.bind(storage);
  storage.commit = (changes) => (broken ? Promise.reject(new StorageError("unavailable", "not now")) : commit(changes));
});
afterAll(() => api[Symbol.asyncDispose]());
beforeEach(() => api.path.clock.advance(61_000));

async function send(operation: (typeof OPERATIONS)[number], faults: ReadonlySet<Fault>): Promise<string> {
  const { method, tail, body } = operation;
  const has = (fault: Fault): boolean => faults.has(fault);
  const keyId = has("key") ? "key_foreign" : has("cap") ? "key_full" : "key_1";
  const owner = has("limit") ? "key_1,key_full,limited" : "key_1,key_full,free";
  const token = has("token") ? "bad" : `${owner}+${has("factor") ? "old" : "mfa"}`;
  const place = `/api-keys/${keyId}/webhooks${tail.replace("{id}", has("resource") ? "sub_none" : id)}`;
  if (has("limit"))
    await api.ask(method, `/api-keys/key_1/webhooks${tail.replace("{id}", "sub_none")}`, { token: owner });
  const fields = has("url") ? { ...body, url: "https://10.0.0.1/" } : body;
  const wrong = has("fields") ? { ...fields, surprise: 1 } : fields;
  const text = has("json") ? "{" : JSON.stringify(wrong);
  const padded = has("size") ? (text ?? "").padEnd(70_000, " ") : text;
  const head = [
    `${has("method") ? "PUT" : method} ${place}${has("path") ? "/" : ""} HTTP/1.1`,
    "Host: relay",
    ...(has("head") ? ["Host: other"] : []),
    "Connection: close",
    `Authorization: Bearer ${token}`,
    ...(padded === undefined
      ? []
      : [`Content-Type: ${has("type") ? "text/plain" : "application/json"}`, `Content-Length: ${padded.length}`]),
  ];
  broken = has("storage");
  try {
    return await api.raw(`${head.join("\r\n")}\r\n\r\n${padded ?? ""}`);
  } finally {
    broken = false;
  }
}

function answered(text: string): string {
  const status = /^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? "none";
  return `${status} ${/"code":"([A-Z_]+)"/.exec(text)?.[1] ?? ""}`.trim();
}

describe.each(OPERATIONS)("$name", (operation) => {
  const possible = FAULTS.filter(([fault]) => !(operation.not as readonly string[]).includes(fault));
  const pairs = possible.flatMap((first, i) => possible.slice(i + 1).map((second) => [first, second] as const));

  it.each(possible.map(([fault, status, code]) => [fault, `${status} ${code}`] as const))(
    "%s alone is answered %s",
    async (fault, expected) => {
      expect(answered(await send(operation, new Set([fault])))).toBe(expected);
    },
  );

  it(`of ${pairs.length} pairs, answers the earlier one`, async () => {
    const wrong: string[] = [];
    for (const [[first, status, code], [second]] of pairs) {
      await api.path.clock.advance(61_000);
      const got = answered(await send(operation, new Set([first, second])));
      if (got !== `${status} ${code}`) wrong.push(`${first} + ${second}: ${got}`);
    }
    expect(wrong).toEqual([]);
  });
});
