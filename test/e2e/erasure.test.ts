// Erasing an event over real sockets: what is promised in docs/erasure.md, its operation and its command.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCommand } from "../support/command.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";

const page = readFileSync(new URL("../../docs/erasure.md", import.meta.url), "utf8");

let receiver: Receiver;
let relay: TestRelay;
beforeAll(async () => {
  [receiver, relay] = await Promise.all([startReceiver(), startRelay()]);
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await receiver?.close();
});

async function published(keyId: string, more: object = {}): Promise<string> {
  const made = await relay.publish({ type: "deposit:paid", keyId, data: { name: "Alice" }, ...more });
  expect(made.status, made.text).toBe(202);
  return made.json.data.id as string;
}

async function subscribed(keyId: string): Promise<void> {
  const body = { url: receiver.url(), events: ["*"] };
  const made = await relay.call("POST", `/api-keys/${keyId}/webhooks`, { body });
  expect(made.status, made.text).toBe(201);
}

const statusOf = async (keyId: string, id: string): Promise<unknown> =>
  (await relay.call("GET", `/api-keys/${keyId}/events/${id}`)).json.data?.status;

describe("erasing an event", () => {
  it("answers 204, then 404, and the audit alone remembers it", async () => {
    await subscribed("key_1");
    const id = await published("key_1");
    await expect.poll(() => statusOf("key_1", id), { timeout: 30_000 }).toBe("delivered");
    const gone = await relay.call("DELETE", `/api-keys/key_1/events/${id}`);
    expect([gone.status, gone.text]).toEqual([204, ""]);
    for (const method of ["GET", "DELETE"])
      expect((await relay.call(method, `/api-keys/key_1/events/${id}`)).status).toBe(404);
    expect((await relay.call("POST", `/api-keys/key_1/events/${id}/replay`)).status).toBe(404);
    expect((await relay.call("GET", "/api-keys/key_1/events")).text).not.toContain(id);
    const { json, text } = await relay.call("GET", "/api-keys/key_1/audit");
    expect(json.data[0]).toMatchObject({ action: "event.erased", target: id, result: "done" });
    expect(text).not.toContain("Alice");
  });

  it("is refused for an event of another key, and for one that never was", async () => {
    const id = await published("key_2");
    for (const path of [`key_1/events/${id}`, "key_2/events/evt_none", "key_2/events/no%20id"])
      expect((await relay.call("DELETE", `/api-keys/${path}`)).status).toBe(404);
    expect(await statusOf("key_2", id)).toBe("unmatched");
  });

  it("is done by the command, and refuses the publisher's id for a day in words that the guide has", async () => {
    const id = await published("key_3", { id: "order-7" });
    const env = { RELAY_URL: relay.url, RELAY_TOKEN: await relay.token() };
    const erase = ["events", "delete", id, "--key", "key_3"];
    expect(await runCommand(erase, { env })).toMatchObject({
      code: 0,
      stderr: "relay: order-7 is erased\n",
    });
    const again = await runCommand(erase, { env });
    expect(again.code).not.toBe(0);
    const twice = await relay.publish({ type: "deposit:paid", keyId: "key_3", id: "order-7", data: { name: "Alice" } });
    expect([twice.status, twice.json.code]).toEqual([409, "IDEMPOTENCY_MISMATCH"]);
    const { message } = twice.json.errors[0] as { readonly message: string };
    expect(page).toContain(message);
  });
});
