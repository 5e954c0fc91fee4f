// A receiver that comes from another system finds the signature under the header names that it knows.
import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { kept } from "../support/kept.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";

const relay = kept(
  await startRelay({
    signature: {
      headers: {
        "svix-id": "webhook-id",
        "svix-timestamp": "webhook-timestamp",
        "svix-signature": "webhook-signature",
        "X-Acme-Signature": "X-Relay-Webhook-Signature",
        "X-Acme-Old": "X-Relay-Webhook-Signature-Previous",
      },
    },
  }),
);
const token = await relay.token();
const receiver = kept(await startReceiver({ script: () => 200 }));
const create = (keyId: string, more: object = {}) =>
  relay.call("POST", `/api-keys/${keyId}/webhooks`, {
    token,
    body: { url: receiver.url(`/${keyId}`), events: ["a:b"], ...more },
  });
const tested = async (keyId: string, id: string) => {
  await relay.call("POST", `/api-keys/${keyId}/webhooks/${id}/test`, { token });
  const got = receiver.requests.findLast(({ path }) => path === `/${keyId}`);
  if (got === undefined) throw new Error("the receiver got nothing");
  return { body: got.body, headers: got.headers as Record<string, string> };
};

describe("headers under names of one's own", () => {
  it("are sent beside those that they repeat, also while a rotation overlaps", async () => {
    const { json } = await create("key_moved");
    const first = await tested("key_moved", json.data.id);
    const { "svix-id": id, "svix-timestamp": at, "svix-signature": signature } = first.headers;
    const theirs = { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": signature };
    new Webhook(json.data.secret).verify(first.body, theirs as Record<string, string>);
    new Webhook(json.data.secret).verify(first.body, first.headers);
    expect(first.headers["x-acme-signature"]).toBe(first.headers["x-relay-webhook-signature"]);
    expect(first.headers).not.toHaveProperty("x-acme-old");
    const stepped = await relay.token({ mfa: true });
    const path = `/api-keys/key_moved/webhooks/${json.data.id}/rotate-secret`;
    await relay.call("POST", path, { token: stepped });
    const { headers } = await tested("key_moved", json.data.id);
    expect(headers["svix-signature"]?.split(" ")).toHaveLength(2);
    expect(headers["x-acme-old"]).toBe(headers["x-relay-webhook-signature-previous"]);
    expect(headers["x-acme-old"]).toMatch(/^[0-9a-f]{64}$/);
  });

  it("cannot be set by a subscription", async () => {
    const refused = await create("key_clash", { headers: { "SVIX-ID": "x", "X-Other": "y" } });
    expect(refused.status).toBe(400);
    expect(refused.json.errors).toEqual([
      { path: "headers.SVIX-ID", message: "is the relay's own (signature.headers of its config)" },
    ]);
    const { json } = await create("key_clash", { headers: { "X-Other": "y" } });
    const change = { token, body: { headers: { "svix-id": "x" } } };
    expect((await relay.call("PATCH", `/api-keys/key_clash/webhooks/${json.data.id}`, change)).status).toBe(400);
  });

  it("stand in the document of the API and in the page", async () => {
    const { webhooks } = (await relay.call("GET", "/openapi.json")).json;
    const found = webhooks.event.post.parameters.find(({ name }: { name: string }) => name === "svix-id");
    expect(found).toMatchObject({ in: "header", required: true, schema: { description: "The same as `webhook-id`." } });
    const page = await (await fetch(`${relay.url}/developers`)).text();
    expect(page).toContain('data-repeated="{&quot;svix-id&quot;:&quot;webhook-id&quot;');
  });
});
