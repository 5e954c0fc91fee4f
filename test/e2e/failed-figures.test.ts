// The figures of a key count the same failed deliveries as the lists do, also those that no attempt has ended.
import { expect, it } from "vitest";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";
import { eventually } from "../support/until.ts";

it("counts as failed what a disabled subscription has ended, or would have got", async () => {
  await using relay = await startRelay();
  await using receiver = await startReceiver({ otherwise: 500 });
  const { id } = await relay.subscribe(receiver.url("/"), { retry: { delaysMs: [1_000] } });
  const publish = () => relay.publish({ type: "deposit:paid", keyId: "key_1", data: 1 });
  const figures = async () => {
    const { totals, subscriptions } = (await relay.call("GET", "/api-keys/key_1/stats")).json.data;
    const list = await relay.call("GET", `/api-keys/key_1/webhooks/${id}/deliveries?status=failed`);
    return [totals.failed, subscriptions[0].figures.failed, list.json.data.length];
  };
  await publish();
  await eventually("the first attempt has failed", async () => {
    const { totals } = (await relay.call("GET", "/api-keys/key_1/stats")).json.data;
    return totals.attempts === 1;
  });
  // Its second attempt is due soon, and is not made.
  await relay.call("PATCH", `/api-keys/key_1/webhooks/${id}`, { body: { status: "disabled" } });
  await eventually("the delivery has ended", async () => (await figures())[2] === 1);
  await eventually("it is counted", async () => (await figures())[0] === 1);
  // This one has no attempt at all.
  await publish();
  expect(await figures()).toEqual([2, 2, 2]);
});
