import { describe, expect, it } from "vitest";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";

describe("the list of API keys", () => {
  it("has the figures of each key over a time, where that is asked for", async () => {
    await using receiver = await startReceiver();
    await using relay = await startRelay();
    for (const keyId of ["key_a", "key_b"]) await relay.subscribe(receiver.url(), {}, keyId);
    for (let n = 0; n < 3; n++)
      expect((await relay.publish({ type: "a:b", keyId: "key_a", data: n })).status).toBe(202);
    await receiver.waitFor(3);
    const plain = await relay.call("GET", "/api-keys");
    expect(plain.json.data).toEqual([{ id: "key_a" }, { id: "key_b" }]);
    const list = async () => (await relay.call("GET", "/api-keys?range=1h")).json.data;
    await expect.poll(list).toMatchObject([
      { id: "key_a", figures: { accepted: 3, delivered: 3, failed: 0, attempts: 3, p50Ms: expect.any(Number) } },
      { id: "key_b", figures: { accepted: 0, delivered: 0, failed: 0, attempts: 0, p50Ms: null, p99Ms: null } },
    ]);
    const first = await relay.call("GET", "/api-keys?range=1h&limit=1");
    expect(first.json.data).toHaveLength(1);
    const second = await relay.call("GET", `/api-keys?range=1h&limit=1&cursor=${first.json.meta.nextCursor}`);
    expect(second.json.data).toMatchObject([{ id: "key_b" }]);
  });
});
