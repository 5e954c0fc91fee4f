// A replay job in a whole relay that is killed in its middle: what is exhausted is sent again by itself.
import { describe, expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";

const EVERY_SECOND = "* * * * * *";

describe("a replay job", () => {
  it(
    "that is killed in its middle goes on after the next start, each delivery whole",
    { timeout: 240_000 },
    async () => {
      const folder = testFolder();
      await using receiver = await startReceiver({ otherwise: 500 });
      const config = `retry: { attempts: 1 }, health: false,
  jobs: [replay({ schedule: "${EVERY_SECOND}", olderThanMs: 0, maxAgeMs: 600000, maxReplays: 1000, limit: 30, perSecond: 60 })],`;
      const plain = { config: "retry: { attempts: 1 }, health: false," };
      const ids = Array.from({ length: 60 }, (_, i) => `e:${i}`);
      const failed = async (relay: ChildRelay) =>
        (await relay.call("GET", "/api-keys/key_1/events?status=failed&limit=200")).json.data.length as number;
      await using first = await startChild(folder, plain);
      await first.subscribe(receiver.url());
      await first.publish(ids.map((id) => ({ type: "a:b", keyId: "key_1", id, data: 1 })));
      await expect.poll(() => failed(first), { timeout: 60_000 }).toBe(60);
      await first.kill();
      await using second = await startChild(folder, { config, imports: ["replay"] });
      await receiver.waitFor(70, 60_000);
      await second.kill();
      receiver.answer([], 200);
      await using third = await startChild(folder, { config, imports: ["replay"] });
      const left = async () =>
        (await third.call("GET", "/api-keys/key_1/events?status=delivered&limit=200")).json.data.length;
      await expect.poll(left, { timeout: 60_000, interval: 100 }).toBe(60);
      for (const id of ids) {
        const [delivery] = (await third.event(id)).deliveries;
        // Each cycle holds one attempt, and no cycle is missing but one that was just begun when it was killed.
        const path = `/api-keys/key_1/events/${id}/deliveries/${delivery.subscriptionId}/attempts?limit=200`;
        const attempts = (await third.call("GET", path)).json.data as readonly { readonly cycle: number }[];
        const cycles = attempts.map(({ cycle }) => cycle).toReversed();
        expect(cycles).toEqual([...new Set(cycles)]);
        expect(delivery.cycle).toBe(cycles.at(-1));
        const sent = receiver.requests.filter(({ headers }) => headers["webhook-id"] === id).length;
        expect(sent - cycles.length).toBeLessThanOrEqual(1);
      }
    },
  );
});
