// Portal links: what they open, what they never open, and what ends them.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { https, toFile } from "../../config/index.ts";
import { makeKeys } from "../../core/runtime/keys/keyring.ts";
import { kept } from "../support/kept.ts";
import { startRelay, TEST_KEYS } from "../support/relay.ts";

/** Operations of a key, and of none, that a link to manage opens. A new operation of a key must be here or below. */
const OPEN = [
  "delete /api-keys/{keyId}/webhooks/{subscriptionId}",
  "get /api-keys",
  "get /api-keys/{keyId}/attempts",
  "get /api-keys/{keyId}/attention",
  "get /api-keys/{keyId}/events",
  "get /api-keys/{keyId}/events/{eventId}",
  "get /api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/attempts",
  "get /api-keys/{keyId}/stats",
  "get /api-keys/{keyId}/stream",
  "get /api-keys/{keyId}/webhooks",
  "get /api-keys/{keyId}/webhooks/{subscriptionId}",
  "get /api-keys/{keyId}/webhooks/{subscriptionId}/deliveries",
  "get /api-keys/{keyId}/webhooks/{subscriptionId}/order",
  "get /event-types",
  "get /event-types/{eventType}",
  "get /transforms",
  "patch /api-keys/{keyId}/webhooks/{subscriptionId}",
  "post /api-keys/{keyId}/deliveries",
  "post /api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/attempt",
  "post /api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/cancel",
  "post /api-keys/{keyId}/events/{eventId}/replay",
  "post /api-keys/{keyId}/replay",
  "post /api-keys/{keyId}/webhooks",
  "post /api-keys/{keyId}/webhooks/{subscriptionId}/filter/test",
  "post /api-keys/{keyId}/webhooks/{subscriptionId}/replay",
  "post /api-keys/{keyId}/webhooks/{subscriptionId}/skip",
  "post /api-keys/{keyId}/webhooks/{subscriptionId}/test",
  "post /api-keys/{keyId}/webhooks/{subscriptionId}/transform/test",
];
/** Those that show what operators do, make a secret, delete for ever, or are not of one key. */
const CLOSED = [
  "delete /api-keys/{keyId}",
  "delete /api-keys/{keyId}/events/{eventId}",
  "delete /api-keys/{keyId}/portal-links",
  "get /api-keys/{keyId}/audit",
  "get /relay/attention",
  "get /relay/backup",
  "get /relay/status",
  "post /api-keys/{keyId}/attention/acknowledge",
  "post /api-keys/{keyId}/events",
  "post /api-keys/{keyId}/portal-links",
  "post /api-keys/{keyId}/webhooks/{subscriptionId}/rotate-secret",
  "post /relay/attention/acknowledge",
  "post /relay/rekey",
];

interface Described {
  readonly security?: readonly Record<string, unknown>[];
  readonly tags?: readonly string[];
  readonly responses: object;
}

const relay = kept(await startRelay());
const { paths, security: whole } = (await relay.call("GET", "/openapi.json", { token: null })).json as {
  readonly paths: Record<string, Record<string, Described>>;
  readonly security: readonly Record<string, unknown>[];
};
const routes = Object.entries(paths).flatMap(([path, item]) =>
  Object.entries(item)
    .filter(([, { security = whole }]) => security.some((one) => "bearer" in one))
    .map(([method, { tags = [], responses }]) => ({
      name: `${method} ${path}`,
      method: method.toUpperCase(),
      path,
      tag: tags[0] ?? "",
      codes: responses,
    })),
);
const body = { url: "https://127.0.0.1/", events: ["*"] };
const sub = (await relay.call("POST", "/api-keys/key_a/webhooks", { body })).json.data.id as string;

async function link(keyId: string, access: "manage" | "read", token?: string, expiresInSeconds?: number) {
  const made = await relay.call("POST", `/api-keys/${keyId}/portal-links`, {
    ...(token !== undefined && { token }),
    body: { access, ...(expiresInSeconds !== undefined && { expiresInSeconds }) },
  });
  expect(made.status, made.text).toBe(201);
  const { id, url, expiresAt } = made.json.data as Record<"id" | "url" | "expiresAt", string>;
  return { id, url, expiresAt, token: new URL(url).hash.slice("#link=".length) };
}

const on = (path: string, keyId: string): string =>
  path
    .replace("{keyId}", keyId)
    .replace("{subscriptionId}", sub)
    .replaceAll(/\{\w+\}/g, "evt_none");

describe("a portal link", () => {
  it("leads to the portal where it was asked for, with its token behind the #, for an hour unless said", async () => {
    const before = Date.now();
    const { url, expiresAt } = await link("key_a", "read");
    expect(url.startsWith(`${relay.url}/portal#link=ey`)).toBe(true);
    expect(Math.abs(Date.parse(expiresAt) - before - 3_600_000)).toBeLessThan(60_000);
    const short = await link("key_a", "read", undefined, 60);
    expect(Date.parse(short.expiresAt) - before).toBeLessThan(120_000);
  });

  it("leads where the config says, whatever Host is sent", async () => {
    const asked = { headers: { host: "hooks.example.com" }, body: { access: "read" } };
    await using named = await startRelay({ portal: { url: "https://webhooks.acme.example" } });
    const made = await named.call("POST", "/api-keys/key_a/portal-links", asked);
    expect(made.json.data.url.startsWith("https://webhooks.acme.example/portal#link=")).toBe(true);
  });

  it.each([
    ...["hooks.example.com", "127.0.0.2.example", "10.0.0.1:443", "localhost.evil.example"],
    ...["a.example/x?", "me@evil.example", 'a"><script>', "a.example:99999", "a.example,b.example"],
  ])("is relative to the relay where the Host is not its own address: %s", async (host) => {
    const asked = { headers: { host }, body: { access: "read" } };
    const { status, json } = await relay.call("POST", "/api-keys/key_a/portal-links", asked);
    expect([status, json.data.url.slice(0, 14)]).toEqual([201, "portal#link=ey"]);
    expect(new URL(json.data.url as string, `${relay.url}/`).pathname).toBe("/portal");
  });

  it("leads to the name of this machine that was asked", async () => {
    const asked = { headers: { host: "localhost:8443" }, body: { access: "read" } };
    const { json } = await relay.call("POST", "/api-keys/key_a/portal-links", asked);
    expect(json.data.url).toMatch(/^https?:\/\/localhost:8443\/portal#link=ey/);
  });

  it("is made as the guide shows", async () => {
    const guide = await readFile(new URL("../../docs/portal.md", import.meta.url), "utf8");
    const [, method = "", path = "", body = "", status, shape = ""] =
      /^```http\n([A-Z]+) (\S+)\n(\{.*\})\n→ (\d+) (.*)\n```$/m.exec(guide) ?? [];
    const got = await relay.call(method, path, { body });
    expect(got.status).toBe(Number(status));
    expect(Object.keys(got.json.data)).toEqual([...shape.matchAll(/"(\w+)"/g)].map(([, field]) => field));
  });

  it.each([
    { access: "admin" },
    { access: "read", expiresInSeconds: 59 },
    { access: "read", expiresInSeconds: 86_401 },
    { access: "read", keyId: "key_b" },
    {},
  ])("is not made of %j", async (body) => {
    expect((await relay.call("POST", "/api-keys/key_a/portal-links", { body })).status).toBe(400);
  });

  it("is made for keys of one's own, by those who may manage", async () => {
    const foreign = await relay.token({ keys: ["key_b"] });
    const reader = await relay.token({ access: "read" });
    const ask = async (token: string) =>
      (await relay.call("POST", "/api-keys/key_a/portal-links", { token, body: { access: "read" } })).status;
    expect([await ask(foreign), await ask(reader)]).toEqual([404, 403]);
  });

  it("opens its own key, says the list of all operations, and nothing but these", async () => {
    const { token } = await link("key_a", "manage");
    const operations = routes.filter(({ tag }) => tag !== "Accounts");
    expect(operations.map(({ name }) => name).toSorted()).toEqual([...OPEN, ...CLOSED].toSorted());
    const wrong: unknown[] = [];
    for (const { name, method, path, codes } of operations.filter((one) => !one.path.endsWith("/stream"))) {
      // The deletion comes with a body that is refused first.
      const body = method === "GET" ? undefined : { not: "a field" };
      const target =
        name.startsWith("delete") && OPEN.includes(name) ? on(path, "key_a").replace(sub, "sub_x") : on(path, "key_a");
      const got = await relay.call(method, target, { token, ...(body && { body }) });
      const refused = got.status === 403 && got.json.code === "FORBIDDEN";
      if (refused === OPEN.includes(name) || got.status >= 500) wrong.push([name, got.status, got.text]);
      if (refused && !("403" in codes)) wrong.push([name, "the document does not say so"]);
    }
    expect(wrong).toEqual([]);
  });

  it("opens nothing of another key: each operation is 404 or 403, as for a key that there is not", async () => {
    const { token } = await link("key_b", "manage");
    const wrong: unknown[] = [];
    for (const { name, method, path } of routes.filter((one) => one.path.includes("{keyId}"))) {
      const valid: Record<string, unknown> = {
        "post /api-keys/{keyId}/webhooks": { url: "https://127.0.0.1/", events: ["*"] },
        "post /api-keys/{keyId}/webhooks/{subscriptionId}/filter/test": { event: { type: "a", data: 1 } },
        "post /api-keys/{keyId}/webhooks/{subscriptionId}/transform/test": { event: { type: "a", data: 1 } },
        "post /api-keys/{keyId}/deliveries": {
          action: "cancel",
          deliveries: [{ eventId: "evt_a", subscriptionId: "sub_a" }],
        },
      };
      const body = method === "GET" || method === "DELETE" ? undefined : (valid[name] ?? {});
      const got = await relay.call(method, on(path, "key_a"), { token, ...(body !== undefined && { body }) });
      const wanted = OPEN.includes(name) ? 404 : 403;
      if (got.status !== wanted) wrong.push([name, got.status, got.text]);
    }
    expect(wrong).toEqual([]);
    expect((await relay.call("GET", "/api-keys", { token })).json.data).toEqual([]);
  });

  it("is no access token: account routes do not know it, and it is no publish token", async () => {
    const { token } = await link("key_a", "manage");
    for (const { name, method, path } of routes.filter(({ tag }) => tag === "Accounts")) {
      const got = await relay.call(method, on(path, "key_a"), { token, body: {} });
      expect([name, got.status, got.json.code]).toEqual([name, 401, "UNAUTHENTICATED"]);
    }
    const event = { type: "a", keyId: "key_a", data: 1 };
    expect((await relay.call("POST", "/events", { token, body: event })).status).toBe(401);
  });

  it("counts together with the other links of its key: more links are no more changes, and a few pages stay open", async () => {
    await using limited = await startRelay({ limits: {}, abuse: undefined });
    const made = await Promise.all(
      ["key_a", "key_a", "key_a", "key_a", "key_b"].map(async (keyId) => {
        const { json } = await limited.call("POST", `/api-keys/${keyId}/portal-links`, { body: { access: "manage" } });
        return { keyId, token: new URL(json.data.url as string).hash.slice("#link=".length) };
      }),
    );
    const body = { url: "https://127.0.0.1/", events: ["*"] };
    const create = async ({ keyId, token }: { keyId: string; token: string }): Promise<number> =>
      (await limited.call("POST", `/api-keys/${keyId}/webhooks`, { token, body })).status;
    const statuses: number[] = [];
    for (const one of made) statuses.push(await create(one));
    expect(statuses).toEqual([201, 201, 201, 429, 201]);
    const looks = made.flatMap((one) => Array.from({ length: 5 }, () => one));
    for (const { keyId, token } of looks)
      expect((await limited.call("GET", `/api-keys/${keyId}/webhooks`, { token })).status).toBe(200);
  });

  it("leads deliveries to HTTPS addresses only, not to what else the operator has connected", async () => {
    await using wide = await startRelay({ transports: [https(), toFile({ name: "books", dir: "./books" })] });
    const made = await wide.call("POST", "/api-keys/key_a/portal-links", { body: { access: "manage" } });
    const token = new URL(made.json.data.url as string).hash.slice("#link=".length);
    const create = (url: string, by?: string) =>
      wide.call("POST", "/api-keys/key_a/webhooks", { ...(by && { token: by }), body: { url, events: ["*"] } });
    const file = "file://books/key_a";
    expect((await create(file)).status).toBe(201);
    const refused = await create(file, token);
    expect([refused.status, refused.json.code]).toEqual([422, "URL_NOT_ALLOWED"]);
    const own = await create("https://127.0.0.1/", token);
    expect(own.status).toBe(201);
    const at = `/api-keys/key_a/webhooks/${own.json.data.id}`;
    expect((await wide.call("PATCH", at, { token, body: { url: "FILE://books/x" } })).status).toBe(422);
    expect((await wide.call("PATCH", at, { token, body: { description: "mine" } })).status).toBe(200);
  });

  it("to read changes nothing", async () => {
    const { token } = await link("key_a", "read");
    expect((await relay.call("GET", "/api-keys/key_a/webhooks", { token })).json.data).toHaveLength(1);
    for (const { name, method, path } of routes.filter((one) => OPEN.includes(one.name) && one.method !== "GET")) {
      const got = await relay.call(method, on(path, "key_a"), { token, body: {} });
      const reads = /\/(filter|transform)\/test$/.test(name);
      expect([name, got.status === 403]).toEqual([name, !reads]);
    }
  });

  it("leaves a trace: who made it, and what its holder did", async () => {
    const alice = await relay.token({ sub: "alice", keys: ["key_c"] });
    const { id, token } = await link("key_c", "manage", alice, 600);
    const body = { url: "https://127.0.0.1/", events: ["*"] };
    const made = await relay.call("POST", "/api-keys/key_c/webhooks", { token, body });
    expect(made.status).toBe(201);
    const { data } = (await relay.call("GET", "/api-keys/key_c/audit")).json as { data: Record<string, string>[] };
    const mine = data.filter(({ by }) => by === "alice" || by === `portal:${id}`);
    expect(mine.map(({ by, action, target, detail }) => [by, action, target, detail].join(" | "))).toEqual([
      expect.stringContaining(`portal:${id} | subscription.created | ${made.json.data.id}`),
      `alice | portal_link.created | ${id} | manage, for 600 s`,
    ]);
  });

  it("may not be had by changing one: its text is signed, and its parts are those of one link", async () => {
    const a = (await link("key_a", "read")).token.split(".");
    const b = (await link("key_b", "manage")).token.split(".");
    const asRead = async (token: string) => (await relay.call("GET", "/api-keys/key_b/webhooks", { token })).status;
    const claims = JSON.parse(Buffer.from(a[1] as string, "base64url").toString()) as Record<string, unknown>;
    const forged = Buffer.from(JSON.stringify({ ...claims, api_keys: ["*"] })).toString("base64url");
    expect(await asRead(b.join("."))).toBe(200);
    for (const token of [
      `${a[0]}.${b[1]}.${a[2]}`,
      `${a[0]}.${forged}.${a[2]}`,
      `${a[0]}.${a[1]}.`,
      `${Buffer.from('{"alg":"none","typ":"relay-portal+jwt"}').toString("base64url")}.${b[1]}.`,
    ])
      expect(await asRead(token)).toBe(401);
    // The same claims as an access token, and an access token's as a link.
    const keys = makeKeys(TEST_KEYS);
    expect(await asRead(await keys.signToken(claims))).toBe(401);
    const own = JSON.parse(Buffer.from((await relay.token()).split(".")[1] as string, "base64url").toString());
    expect(await asRead(await keys.signToken(own, "relay-portal+jwt"))).toBe(401);
  });
});

describe("what ends links", () => {
  const asks = async (keyId: string, token: string): Promise<number> =>
    (await relay.call("GET", `/api-keys/${keyId}/webhooks`, { token })).status;

  it("a revocation ends all of the key, and none of another; a later one opens again", async () => {
    const [one, other, foreign] = [
      await link("key_d", "manage"),
      await link("key_d", "read"),
      await link("key_e", "read"),
    ];
    expect((await relay.call("DELETE", "/api-keys/key_d/portal-links")).status).toBe(204);
    expect((await relay.call("DELETE", "/api-keys/key_d/portal-links")).status).toBe(204);
    expect([await asks("key_d", one.token), await asks("key_d", other.token)]).toEqual([401, 401]);
    expect(await asks("key_e", foreign.token)).toBe(200);
    expect(await asks("key_d", (await link("key_d", "read")).token)).toBe(200);
    expect(await asks("key_d", one.token)).toBe(401);
  });

  it("the erasure of the key does, at once", async () => {
    const body = { url: "https://127.0.0.1/", events: ["*"] };
    await relay.call("POST", "/api-keys/key_f/webhooks", { body });
    const { token } = await link("key_f", "manage");
    expect(await asks("key_f", token)).toBe(200);
    const erased = await relay.call("DELETE", "/api-keys/key_f", { token: await relay.token({ mfa: true }) });
    expect(erased.status).toBe(202);
    expect(await asks("key_f", token)).toBe(401);
    const fresh = await link("key_f", "manage");
    expect([await asks("key_f", fresh.token), await asks("key_f", token)]).toEqual([200, 401]);
  });

  it("so does a change of the account that made it, and nothing of that account is in the link", async () => {
    const password = "correct horse battery";
    const admin = await relay.token({ mfa: true });
    const code = (await readFile(join(relay.dataDir, "setup-code"), "utf8")).trim();
    await relay.call("POST", "/auth/setup", { token: null, body: { code, username: "root", password } });
    const minted = async (): Promise<string> => {
      const body = { username: "bob", password };
      const login = await relay.call("POST", "/auth/login", { token: null, body });
      return (await link("key_a", "read", login.json.data.token as string)).token;
    };
    const add = { username: "bob", password, keys: ["key_a"] };
    await relay.call("POST", "/auth/users", { token: admin, body: add });
    const first = await minted();
    expect(Buffer.from(first.split(".")[1] as string, "base64url").toString()).not.toContain("bob");
    expect(await asks("key_a", first)).toBe(200);
    await relay.call("POST", "/auth/users/bob/reset", { token: admin, body: { password: `${password} 2` } });
    expect(await asks("key_a", first)).toBe(401);
    await relay.call("POST", "/auth/users/bob/reset", { token: admin, body: { password } });
    const second = await minted();
    await relay.call("DELETE", "/auth/users/bob", { token: admin });
    expect(await asks("key_a", second)).toBe(401);
    await relay.call("POST", "/auth/users", { token: admin, body: add });
    expect(await asks("key_a", second)).toBe(401);
  });

  it("a config without a portal opens none, and has no page", async () => {
    await using closed = await startRelay({ portal: false });
    const { token } = await link("key_a", "manage");
    expect((await closed.call("GET", "/api-keys/key_a/webhooks", { token })).status).toBe(401);
    expect((await closed.call("POST", "/api-keys/key_a/portal-links", { body: { access: "read" } })).status).toBe(404);
    expect((await closed.call("GET", "/portal", { token: null })).status).toBe(404);
  });
});
