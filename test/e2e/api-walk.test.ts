// A random walk over a whole relay, accounts and all, made from the document that it serves: no 5xx, no answer beyond it.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { totpCode } from "../../plugins/auth/accounts/codes.ts";
import { type Described, type Document, unpromised, walker } from "../api/walk.ts";
import { CHECK_TOKEN, startUpstream } from "../support/gateway.ts";
import { kept } from "../support/kept.ts";
import { startRelay, TEST_KEYS } from "../support/relay.ts";

/** More of it: `RELAY_WALK=20000`. */
const STEPS = Number(process.env["RELAY_WALK"] ?? 1_500);
const PASSWORD = "correct horse battery";

const upstream = kept(await startUpstream());
const relay = kept(
  await startRelay({
    guard: { allow: ["127.0.0.1:*"] },
    gateway: { upstream: upstream.url },
    limits: { "*": false, check: { token: CHECK_TOKEN } },
  }),
);
const document = (await relay.call("GET", "/openapi.json", { token: null })).json as Document;
const code = (await readFile(join(relay.dataDir, "setup-code"), "utf8")).trim();
const body = { code, username: "alice", password: PASSWORD };
let session = (await relay.call("POST", "/auth/setup", { token: null, body })).json.data.token as string;
const begun = await relay.call("POST", "/auth/totp", { token: session, body: { password: PASSWORD } });
const secret = new URL(begun.json.data.uri as string).searchParams.get("secret") as string;

/** Of any length, and no JSON. */
const streams = ({ responses }: Described): boolean => {
  const types = Object.keys(responses["200"]?.content ?? {});
  return types.length > 0 && !types.some((type) => /[/+]json$/.test(type));
};

describe("every route of the document", () => {
  it("has a description of its own, accounts among them", () => {
    const vague = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.entries(item)
        .filter(([, one]) => "2XX" in one.responses)
        .map(([method]) => `${method} ${path}`),
    );
    expect(vague).toEqual([]);
    expect(Object.keys(document.paths)).toEqual(
      expect.arrayContaining(["/auth/login", "/relay/rekey", "/events", "/v1/qr"]),
    );
  });

  it("of accounts answers as it says when all goes well", async () => {
    const wrong: string[] = [];
    const step = Math.floor(Date.now() / 30_000);
    const admin = await relay.token({ mfa: true });
    const send = async (
      method: string,
      path: string,
      body?: unknown,
      token: string | null = session,
      real = path,
      headers = {},
    ) => {
      const got = await relay.call(method.toUpperCase(), real, { token, headers, ...(body !== undefined && { body }) });
      wrong.push(...unpromised(document, method, path, got));
      expect([method, path, got.status < 300 || got.status === 401]).toEqual([method, path, true]);
      return got;
    };
    const on = await send("put", "/auth/totp", { code: totpCode(secret, step) });
    session = on.json.data.token as string;
    await send("post", "/auth/step-up", { code: totpCode(secret, step + 1) });
    await send("post", "/auth/users", { username: "bob", password: PASSWORD, keys: ["key_b"] }, admin);
    await send("get", "/auth/users", undefined, admin);
    const login = await send("post", "/auth/login", { username: "bob", password: PASSWORD }, null);
    const cookie = String(login.headers["set-cookie"]).split(";")[0];
    await send("post", "/auth/refresh", undefined, null, "/auth/refresh", { cookie, origin: relay.url });
    await send("post", "/auth/logout", undefined, login.json.data.token as string);
    const begun = await send("post", "/auth/users/{username}/totp", undefined, admin, "/auth/users/bob/totp");
    const bobs = new URL(begun.json.data.uri as string).searchParams.get("secret") as string;
    await send("put", "/auth/users/{username}/totp", { code: totpCode(bobs, step) }, admin, "/auth/users/bob/totp");
    await send("post", "/auth/login", { username: "bob", password: PASSWORD }, null);
    await send("post", "/auth/users/{username}/reset", { totp: false }, admin, "/auth/users/bob/reset");
    await send("delete", "/auth/users/{username}", undefined, admin, "/auth/users/bob");
    await send("post", "/relay/rekey", undefined, admin);
    expect(wrong).toEqual([]);
  });
});

describe("a random walk", () => {
  it(`of ${STEPS} requests`, { timeout: 240_000 }, async () => {
    const known = {
      ...{ keyId: ["key_1", "key_2"], username: ["alice", "bob"] },
      ...{ subscriptionId: ["sub_x"], eventId: ["evt_x"] },
    };
    // No dot segments: the client itself would fold them.
    const odd = ["%00", "a".repeat(300), "%F0%9F%92%A5", "__proto__", "constructor", "-", "%2F", "%"];
    const { random, pick, text, request, remember } = walker(document, 20_261_121, known, odd);
    const tokens = [
      await relay.token({ mfa: true }),
      await relay.token(),
      await relay.token({ keys: ["key_1"], mfa: true }),
      session,
      "bad",
      null,
    ];
    const slow = ["/auth/login", "/auth/setup", "/auth/users", "/auth/totp", "/relay/rekey"];
    const all = Object.entries(document.paths)
      .flatMap(([path, item]) => Object.entries(item).map(([method, described]) => ({ path, method, described })))
      .filter(({ described }) => !streams(described));
    // The gateway has as many operations as all the rest, and they are alike.
    const passed = all.filter(({ path }) => path.startsWith("/v1/"));
    const own = all.filter(({ path }) => !path.startsWith("/v1/"));
    const wrong: string[] = [];
    const statuses = new Map<number, number>();
    for (let at = 0; at < STEPS && wrong.length === 0; at++) {
      const { path, method, described } = pick(random() < 0.2 ? passed : own);
      // Passwords take their time: fewer of those.
      if (slow.some((one) => path === one) && method === "post" && random() > 0.03) continue;
      const { target, body } = request(path, described);
      const token =
        path === "/events" ? TEST_KEYS.publishToken : path.startsWith("/limits/") ? CHECK_TOKEN : pick(tokens);
      const headers: Record<string, string> = {};
      for (const { name, schema } of described.parameters.filter((one) => one.in === "header"))
        if (random() < 0.4) headers[name] = text(schema).replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 500); // prettier-ignore
      const got = await relay.call(method.toUpperCase(), target, {
        token,
        headers,
        ...(body !== undefined && { body }),
      });
      statuses.set(got.status, (statuses.get(got.status) ?? 0) + 1);
      if (got.status >= 500) wrong.push(`${method} ${target} ${body ?? ""} → ${got.text}`);
      if (got.status !== 404) wrong.push(...unpromised(document, method, path, got));
      else if (got.json?.code !== "NOT_FOUND") wrong.push(`${method} ${target} → ${got.text}`);
      remember(got);
    }
    expect(wrong).toEqual([]);
    for (const status of [200, 201, 202, 204, 400, 401, 404]) expect([...statuses.keys()]).toContain(status);
  });
});
