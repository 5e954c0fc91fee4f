// What a receiver says of its deliveries, and the headers of an event, in a relay that is killed in between.
import { expect, it } from "vitest";
import { startChild } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";

const CONFIG = "retry: { attempts: 3, firstDelayMs: 10, factor: 1 },";
const OBEYS = `${CONFIG} delivery: { receiverControl: true },`;
const says = (control: string, status = 500) =>
  ({ do: "reply", status, headers: { "Webhook-Delivery": control } }) as const;
const PATIENCE = { timeout: 30_000 };

it("headers of an event outlive a killed relay, and are sent with each attempt", { timeout: 120_000 }, async () => {
  const folder = testFolder();
  await using receiver = await startReceiver({ otherwise: { do: "hang" } });
  const first = await startChild(folder, { config: CONFIG });
  await first.subscribe(receiver.url());
  const made = await first.publish({ type: "a:b", keyId: "key_1", data: 1, headers: { "X-Tenant": "t-1" } });
  expect(made.status).toBe(202);
  await receiver.waitFor(1);
  await first.kill();
  receiver.answer([500], 200);
  await using second = await startChild(folder, { config: CONFIG });
  await receiver.waitFor(3);
  const { id } = made.json.data as { id: string };
  await expect.poll(async () => (await second.event(id))?.status, PATIENCE).toBe("delivered");
  expect(receiver.requests.map(({ headers }) => headers["x-tenant"])).toEqual(["t-1", "t-1", "t-1"]);
  expect(await second.event(id)).toMatchObject({ headers: { "x-tenant": "t-1" } });
});

it("a receiver is obeyed over TLS as the config says, and by default is not", { timeout: 120_000 }, async () => {
  await using receiver = await startReceiver({ script: [says("abort-message"), says("disable", 200)] });
  const folder = testFolder();
  const obeying = await startChild(folder, { config: OBEYS });
  const { id: subscription } = await obeying.subscribe(receiver.url());
  const publish = async () =>
    ((await obeying.publish({ type: "a:b", keyId: "key_1", data: 1 })).json.data as { id: string }).id;
  const aborted = await publish();
  await expect.poll(async () => (await obeying.event(aborted))?.status, PATIENCE).toBe("failed");
  expect(await obeying.event(aborted)).toMatchObject({ deliveries: [{ reason: "receiver_aborted", attempts: [{}] }] });
  const last = await publish();
  await expect.poll(async () => (await obeying.event(last))?.status, PATIENCE).toBe("delivered");
  const path = `/api-keys/key_1/webhooks/${subscription}`;
  const shown = async () => (await obeying.call("GET", path)).json.data as object;
  await expect.poll(shown, PATIENCE).toMatchObject({ status: "disabled", disabledReason: "receiver_disabled" });
  expect((await obeying.call("GET", "/api-keys/key_1/audit")).json.data[0]).toMatchObject({
    ...{ action: "subscription.disabled", target: subscription, detail: "receiver_disabled" },
  });
  expect((await obeying.call("GET", "/api-keys/key_1/attention")).json.data[0]).toMatchObject({ state: "disabled" });
  await obeying.kill();

  receiver.answer([says("disable"), says("abort-message")], 200);
  await using plain = await startChild(folder, { config: CONFIG });
  await plain.call("PATCH", path, { status: "active" });
  const { json } = await plain.publish({ type: "a:b", keyId: "key_1", data: 1 });
  await expect.poll(async () => (await plain.event(json.data.id as string))?.status, PATIENCE).toBe("delivered");
  expect(receiver.requests).toHaveLength(5);
});
