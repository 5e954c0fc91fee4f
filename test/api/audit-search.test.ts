import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AuditAction } from "../../core/model/audit.ts";
import { ordinalFloor } from "../../core/model/ids.ts";
import { AUDIT } from "../../core/model/schema.ts";
import { serve } from "./serve.ts";
import type { Served } from "./serve.ts";

const KEY = "key_audit";
const AT = Date.UTC(2026, 0, 1);

let api: Served;
/** Entries of two days, oldest first; those that are looked for are few and far back. */
beforeAll(async () => {
  api = await serve();
  const line = (n: number, by: string, action: AuditAction, target: string, detail?: string) =>
    AUDIT.put(
      { keyId: KEY, ordinal: ordinalFloor(AT + n) },
      { at: AT + n, by, action, target, detail, result: "done" },
    );
  await api.path.storage.commit([
    line(1, "alice", "subscription.created", "sub_1"),
    line(2, "bob", "secret.rotated", "sub_1"),
    line(3, "alice", "delivery.tried", "evt_1", "sub_1"),
    line(4, "bob", "subscription.deleted", "sub_2"),
    ...Array.from({ length: 1_500 }, (_, n) => line(n + 5, "carol", "event.replayed", `evt_${n}`)),
  ]);
});
afterAll(() => api[Symbol.asyncDispose]());

interface Page {
  readonly actions: readonly string[];
  readonly nextCursor?: string;
  readonly searchedTo?: string;
}

async function page(query: Record<string, string>): Promise<Page> {
  const { status, text, json } = await api.ask("GET", `/api-keys/${KEY}/audit?${new URLSearchParams(query)}`);
  expect(status, text).toBe(200);
  const lines = json.data as unknown as { action: string; target: string }[];
  const { nextCursor, searchedTo } = json.meta as { nextCursor?: string; searchedTo?: string };
  return {
    actions: lines.map(({ action, target }) => `${action} ${target}`),
    ...(nextCursor !== undefined && { nextCursor }),
    ...(searchedTo !== undefined && { searchedTo }),
  };
}

async function all(query: Record<string, string>): Promise<readonly string[]> {
  const found: string[] = [];
  for (let cursor: string | undefined; ;) {
    const one = await page({ ...query, ...(cursor !== undefined && { cursor }) });
    found.push(...one.actions);
    if (one.nextCursor === undefined) return found;
    cursor = one.nextCursor;
  }
}

describe("a search of the audit", () => {
  it("goes by action or kind of action, by what it was about, and by whom", async () => {
    expect(await all({ action: "subscription" })).toEqual(["subscription.deleted sub_2", "subscription.created sub_1"]);
    expect(await all({ action: "secret.rotated" })).toEqual(["secret.rotated sub_1"]);
    expect(await all({ target: "sub_1" })).toEqual([
      "delivery.tried evt_1",
      "secret.rotated sub_1",
      "subscription.created sub_1",
    ]);
    expect(await all({ by: "alice", action: "delivery" })).toEqual(["delivery.tried evt_1"]);
    expect(await all({ by: "carol", limit: "200" })).toHaveLength(1_500);
  });

  it("looks at a bounded number of entries for a page, and says how far back it has looked", async () => {
    const first = await page({ action: "secret" });
    expect(first.actions).toEqual([]);
    expect(first.nextCursor).toBeDefined();
    const looked = Date.parse(first.searchedTo ?? "") - AT;
    expect(looked).toBeGreaterThan(400);
    expect(looked).toBeLessThan(600);
  });

  it("goes on where a full page ended, and each page belongs to its search", async () => {
    const first = await page({ action: "subscription", limit: "1" });
    const { nextCursor = "" } = first;
    // The first two pages look at the newer ones.
    const found = await all({ action: "subscription", limit: "1", ...(nextCursor !== "" && { cursor: nextCursor }) });
    expect([...first.actions, ...found]).toEqual(["subscription.deleted sub_2", "subscription.created sub_1"]);
    const other = await api.ask("GET", `/api-keys/${KEY}/audit?action=event&cursor=${nextCursor}`);
    expect(other.status).toBe(400);
  });

  it("is refused with what is wrong in it", async () => {
    for (const query of ["action=", `target=${"x".repeat(300)}`, "who=me"])
      expect((await api.ask("GET", `/api-keys/${KEY}/audit?${query}`)).status).toBe(400);
  });

  it("is refused for an action that there is not, with a list of those that there are", async () => {
    for (const action of ["foo", "sub", "secret.rotate"]) {
      const { status, text } = await api.ask("GET", `/api-keys/${KEY}/audit?action=${action}`);
      expect(status, action).toBe(400);
      for (const known of ["subscription", "secret.rotated", "portal_link", "login", "damaged"])
        expect(text).toContain(known);
    }
  });
});

it("a damaged entry stays in its place, and keeps no other from the list", async () => {
  await using own = await serve();
  const at = (n: number) => AUDIT.key({ keyId: KEY, ordinal: ordinalFloor(AT + n) });
  const login = { at: AT, by: "alice", action: "login", target: "alice", result: "done" } as const;
  const whole = AUDIT.put({ keyId: KEY, ordinal: ordinalFloor(AT) }, login);
  const damaged = ["", "null", '{"at":'].map((value, n) => ({ op: "put", key: at(n + 1), value }) as const);
  await own.path.storage.commit([whole, ...damaged]);
  const { status, json } = await own.ask("GET", `/api-keys/${KEY}/audit`);
  expect(status).toBe(200);
  expect(json.data).toMatchObject([
    ...[3, 2, 1].map((n) => ({ action: "damaged", at: new Date(AT + n).toISOString() })),
    { action: "login" },
  ]);
});
