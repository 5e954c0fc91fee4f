// Those who may only read: every route that changes something is refused to them, and no other.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { kept } from "../support/kept.ts";
import { startRelay } from "../support/relay.ts";

/** Routes that are refused or allowed to readers, whatever their method says, and why. */
const READS = [
  "post /api-keys/{keyId}/webhooks/{subscriptionId}/filter/test",
  "post /api-keys/{keyId}/webhooks/{subscriptionId}/transform/test",
  "post /auth/logout",
  "post /auth/step-up",
  "post /auth/totp",
  "put /auth/totp",
];
const MANAGES = ["get /relay/backup"];
const PASSWORD = "correct horse battery";

interface Document {
  readonly security: readonly unknown[];
  readonly paths: Record<
    string,
    Record<string, { readonly security?: readonly Record<string, unknown>[]; readonly responses: object }>
  >;
}

const relay = kept(await startRelay());
const document = (await relay.call("GET", "/openapi.json", { token: null })).json as Document;
const routes = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item)
    .filter(([, { security = document.security }]) => (security as object[]).some((one) => "bearer" in one))
    .map(([method, { responses }]) => ({
      name: `${method} ${path}`,
      method: method.toUpperCase(),
      path: path.replaceAll("{keyId}", "key_1").replaceAll(/\{\w+\}/g, "sub_1"),
      codes: responses,
    })),
);

const changes = ({ name }: { readonly name: string }): boolean =>
  MANAGES.includes(name) || !(name.startsWith("get ") || READS.includes(name));

describe("a token that may only read", () => {
  it("is on the audit trail of the key with what was refused to it", async () => {
    const token = await relay.token({ sub: "reader", access: "read" });
    const path = "/api-keys/key_audited/webhooks/sub_1";
    expect((await relay.call("DELETE", path, { token })).status).toBe(403);
    const trail = await relay.call("GET", "/api-keys/key_audited/audit?action=access");
    expect(trail.json.data).toMatchObject([
      {
        by: "reader",
        target: "sub_1",
        result: "refused",
        detail: "DELETE /api-keys/{keyId}/webhooks/{subscriptionId}",
      },
    ]);
  });

  it("is refused every route that changes something, with the error of the interface", async () => {
    const token = await relay.token({ access: "read", mfa: true });
    const wrong: unknown[] = [];
    const refused = routes.filter(changes);
    expect(refused.length).toBeGreaterThan(15);
    for (const { name, method, path, codes } of refused) {
      const got = await relay.call(method, path, { token, body: {} });
      if (got.status !== 403 || got.json?.code !== "FORBIDDEN") wrong.push([name, got.status, got.text]);
      if (!("403" in codes)) wrong.push([name, "the document does not say so"]);
    }
    expect(wrong).toEqual([]);
  });

  it("is refused no other route", async () => {
    const token = await relay.token({ access: "read", mfa: true });
    const open = routes.filter((one) => !changes(one) && !one.path.endsWith("/stream"));
    expect(open.length).toBeGreaterThan(15);
    for (const { name, method, path } of open) {
      const got = await relay.call(method, path, { token });
      expect([name, got.json?.code]).not.toEqual([name, "FORBIDDEN"]);
    }
  });

  it("gets a whole problem document, and the same one for a key that is not its own", async () => {
    const token = await relay.token({ access: "read", keys: ["key_1"] });
    const [own, foreign] = await Promise.all(
      ["key_1", "key_2"].map((key) => relay.call("POST", `/api-keys/${key}/webhooks`, { token, body: {} })),
    );
    const bare = ({ json }: { json: Record<string, unknown> }) => ({ ...json, instance: "" });
    expect(bare(foreign as never)).toEqual(bare(own as never));
    expect(own?.headers["content-type"]).toBe("application/problem+json");
    expect(own?.json).toMatchObject({ type: "urn:relaybox:problem:forbidden", status: 403, code: "FORBIDDEN" });
  });

  it("may look at what its keys have", async () => {
    const token = await relay.token({ access: "read", keys: ["key_1"] });
    for (const list of ["webhooks", "events", "audit", "stats?range=1h"])
      expect((await relay.call("GET", `/api-keys/key_1/${list}`, { token })).status).toBe(200);
    expect((await relay.call("GET", "/api-keys/key_2/webhooks", { token })).status).toBe(404);
  });
});

describe("an account that may only read", () => {
  it("logs in, looks, changes nothing, and logs out", async () => {
    const code = (await readFile(join(relay.dataDir, "setup-code"), "utf8")).trim();
    await relay.call("POST", "/auth/setup", { token: null, body: { code, username: "alice", password: PASSWORD } });
    const admin = await relay.token({ mfa: true });
    const made = await relay.call("POST", "/auth/users", {
      token: admin,
      body: { username: "eve", password: PASSWORD, keys: ["*"], access: "read" },
    });
    expect(made.json.data).toEqual({ username: "eve", keys: ["*"], access: "read" });
    const logIn = async (): Promise<string> =>
      (await relay.call("POST", "/auth/login", { token: null, body: { username: "eve", password: PASSWORD } })).json
        .data.token;
    const token = await logIn();
    expect((await relay.call("GET", "/api-keys", { token })).status).toBe(200);
    const body = { url: "https://hooks.example.com/", events: ["*"] };
    const denied = await relay.call("POST", "/api-keys/key_1/webhooks", { token, body });
    expect([denied.status, denied.json.code]).toEqual([403, "FORBIDDEN"]);
    const more = { username: "mallory", password: PASSWORD };
    expect((await relay.call("POST", "/auth/users", { token, body: more })).status).toBe(403);
    expect((await relay.call("POST", "/auth/logout", { token })).status).toBe(204);
    expect((await relay.call("GET", "/api-keys", { token })).status).toBe(401);
  });

  it("may change things from its next login on, when an operator says so", async () => {
    const admin = await relay.token({ mfa: true });
    const list = async () =>
      ((await relay.call("GET", "/auth/users", { token: admin })).json.data as { username: string; access: string }[])
        .map(({ username, access }) => `${username} ${access}`)
        .toSorted();
    expect(await list()).toEqual(["alice manage", "eve read"]);
    const before = { username: "eve", password: PASSWORD };
    const old = (await relay.call("POST", "/auth/login", { token: null, body: before })).json.data.token as string;
    await relay.call("POST", "/auth/users/eve/reset", { token: admin, body: { access: "manage" } });
    expect(await list()).toEqual(["alice manage", "eve manage"]);
    // Its sessions ended with the change.
    expect((await relay.call("GET", "/api-keys", { token: old })).status).toBe(401);
    const token = (await relay.call("POST", "/auth/login", { token: null, body: before })).json.data.token as string;
    const body = { url: "https://127.0.0.1/", events: ["*"] };
    expect((await relay.call("POST", "/api-keys/key_1/webhooks", { token, body })).status).toBe(201);
  });
});
