// A receiver that comes from another system goes on checking with the secret that it has.
import { createHmac, randomBytes } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { verifyHex, verifyStandard } from "../../core/signing/verify.ts";
import { kept } from "../support/kept.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";

const relay = kept(await startRelay());
const token = await relay.token();
const receiver = kept(await startReceiver({ script: () => 200 }));
const create = (keyId: string, secret: unknown) =>
  relay.call("POST", `/api-keys/${keyId}/webhooks`, {
    token,
    body: { url: receiver.url(`/${keyId}`), events: ["a:b"], secret },
  });

describe("a subscription that is created with a secret", () => {
  it.each([24, 32, 64])("of %i bytes is delivered to with signatures of that secret", async (size) => {
    const secret = `whsec_${randomBytes(size).toString("base64")}`;
    const keyId = `key_own_${size}`;
    const made = await create(keyId, secret);
    expect(made.status).toBe(201);
    expect(made.json.data).not.toHaveProperty("secret");
    expect(JSON.stringify(made.json)).not.toContain(secret.slice(6));
    const tested = await relay.call("POST", `/api-keys/${keyId}/webhooks/${made.json.data.id}/test`, { token });
    expect(tested.json.data.statusCode).toBe(200);
    const got = receiver.requests.find(({ path }) => path === `/${keyId}`);
    if (got === undefined) throw new Error("the receiver got nothing");
    const headers = got.headers as Record<string, string>;
    new Webhook(secret).verify(got.body, headers);
    expect(headers["x-relay-webhook-signature"]).toBe(createHmac("sha256", secret).update(got.body).digest("hex"));
    expect(verifyHex(got.body, headers, secret)).toBe(true);
    expect(verifyStandard(got.body, headers, secret)).toBe(true);
    const other = `whsec_${randomBytes(size).toString("base64")}`;
    expect(verifyHex(got.body, headers, other) || verifyStandard(got.body, headers, other)).toBe(false);
  });

  it("gets a secret of the relay's own at its first rotation, beside the given one", async () => {
    const secret = `whsec_${randomBytes(32).toString("base64")}`;
    const { json } = await create("key_own_rotated", secret);
    const stepped = await relay.token({ mfa: true });
    const path = `/api-keys/key_own_rotated/webhooks/${json.data.id}`;
    const rotated = await relay.call("POST", `${path}/rotate-secret`, { token: stepped });
    await relay.call("POST", `${path}/test`, { token });
    const got = receiver.requests.find((one) => one.path === "/key_own_rotated");
    if (got === undefined) throw new Error("the receiver got nothing");
    for (const one of [secret, rotated.json.data.secret as string])
      new Webhook(one).verify(got.body, got.headers as Record<string, string>);
  });

  it("is on the audit trail as such, without the secret", async () => {
    const secret = `whsec_${randomBytes(32).toString("base64")}`;
    await create("key_own_audit", secret);
    await create("key_own_audit", null);
    const { json } = await relay.call("GET", "/api-keys/key_own_audit/audit", { token });
    const lines = json.data as { action: string; detail?: string }[];
    expect(lines.map(({ action, detail }) => [action, detail])).toEqual([
      ["subscription.created", undefined],
      ["subscription.created", "secret"],
    ]);
    expect(JSON.stringify(json)).not.toContain(secret.slice(6));
  });

  it("cannot be given another one in an update: that is what a rotation is for", async () => {
    const { json } = await create("key_own_update", undefined);
    expect(json.data.secret).toMatch(/^whsec_/);
    const got = await relay.call("PATCH", `/api-keys/key_own_update/webhooks/${json.data.id}`, {
      token,
      body: { secret: `whsec_${randomBytes(32).toString("base64")}` },
    });
    expect([got.status, got.json.errors]).toEqual([400, [{ path: "secret", message: "is not known" }]]);
  });
});

describe("a subscription that is created disabled", () => {
  it("gets nothing until it is enabled, and then what is accepted from there on", async () => {
    const url = receiver.url("/key_later");
    const body = { url, events: ["a:b"], status: "disabled" };
    const { json } = await relay.call("POST", "/api-keys/key_later/webhooks", { token, body });
    expect(json.data.status).toBe("disabled");
    const event = (id: string) => ({ type: "a:b", keyId: "key_later", id, data: 1 });
    const early = await relay.publish(event("early"));
    expect(early.status).toBe(202);
    const path = `/api-keys/key_later/webhooks/${json.data.id}`;
    const enabled = await relay.call("PATCH", path, { token, body: { status: "active" } });
    expect(enabled.json.data.status).toBe("active");
    await relay.publish(event("late"));
    const got = () =>
      receiver.requests.filter((one) => one.path === "/key_later").map(({ headers }) => headers["webhook-id"]);
    await expect.poll(got).toEqual(["late"]);
  });
});
