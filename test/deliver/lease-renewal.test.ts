// A node keeps the leases of what takes long, by one call now and then for all of them.
import { describe, expect, it } from "vitest";
import { bound } from "../../core/runtime/plugin/bound.ts";
import { memory } from "../../plugins/storage/memory.ts";
import type { Lease, Storage } from "../../core/ports/storage.ts";
import { testClock, turn } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { replied, testPath } from "../support/path.ts";

const EVERY_MS = 15_000;

describe("the leases of deliveries that take long", () => {
  it("are renewed together while attempts and held waits go on, and no longer", async () => {
    const clock = testClock();
    const inner: Storage = await memory().setup(pluginContext(clock, "/nonexistent"));
    const renewed: (readonly string[])[] = [];
    const renew = async (leases: Iterable<Lease>): Promise<void> => {
      renewed.push([...leases].map(({ subscriptionId }) => subscriptionId).toSorted());
    };
    const storage: Storage = { ...inner, queue: bound(inner.queue, { renewal: { everyMs: EVERY_MS, renew } }) };
    await using test = await testPath({
      clock,
      storage,
      retry: { firstDelayMs: 40_000 },
      delivery: { holdMs: 60_000 },
    });
    const answer = Promise.withResolvers<void>();
    const slow = await test.subscribe();
    test.answers = [
      async () => {
        await answer.promise;
        return replied(200);
      },
    ];
    await test.start();
    await test.publish();
    await test.whenSent(1);
    // A second one, which fails and waits for its next attempt under its lease.
    const waits = await test.subscribe(["withdraw:sent"]);
    test.answers = [replied(500)];
    await test.publish("withdraw:sent");
    await test.whenSent(2);
    await clock.advance(EVERY_MS);
    expect(renewed).toEqual([[slow, waits].toSorted()]);
    answer.resolve();
    for (let i = 0; i < 20; i++) await turn();
    await clock.advance(EVERY_MS);
    expect(renewed.at(-1)).toEqual([waits]);
    await clock.advance(EVERY_MS);
    const after = renewed.length;
    await clock.advance(EVERY_MS * 3);
    expect(renewed).toHaveLength(after);
    await test.parts.dispatcher.stop(0);
  });
});
