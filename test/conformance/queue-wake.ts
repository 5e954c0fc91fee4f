/** Laws of `wake`: it resolves when a claim may find something, and leaves the worker in peace otherwise. */
import { expect } from "vitest";
import { claim, claimOne, due, enqueue, endOf, lineOf } from "./queue.ts";
import type { Queue } from "../../core/ports/storage.ts";
import type { Bench } from "./storage.ts";

/** A wait, and whether it has ended. */
async function waiting(queue: Queue): Promise<{ ended: boolean; readonly over: Promise<void>; stop(): void }> {
  // Lines from before are claimed first, as a worker does.
  while ((await claim(queue)).length > 0) await settled();
  const stop = new AbortController();
  const wait = { ended: false, over: Promise.resolve(), stop: () => stop.abort() };
  wait.over = queue.wake(stop.signal).then(() => {
    wait.ended = true;
  });
  await settled();
  return wait;
}

const settled = async (): Promise<void> => {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => void setImmediate(resolve));
};

export function wakeLaws({ open, law, harness }: Bench): void {
  const now = (): number => harness.clock.now();

  law("wakes when a line is told of that is due", async () => {
    const storage = await open();
    const wait = await waiting(storage.queue);
    expect(wait.ended).toBe(false);
    await enqueue(storage, due("a", 1, now()));
    await wait.over;
    await claimOne(storage.queue);
  });

  law("wakes at the next due time, also of a line told of while it waits", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now() + 9_000));
    const wait = await waiting(storage.queue);
    await enqueue(storage, due("b", 1, now() + 3_000));
    await harness.clock.advance(2_900);
    await settled();
    expect(wait.ended).toBe(false);
    await harness.clock.advance(100);
    await wait.over;
    expect(await claimOne(storage.queue)).toMatchObject({ subscriptionId: "sub_b" });
    const next = await waiting(storage.queue);
    await harness.clock.advance(6_000);
    await next.over;
    await claimOne(storage.queue);
  });

  law("wakes when something is given back, and when it is due again", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()));
    const lease = await claimOne(storage.queue);
    const wait = await waiting(storage.queue);
    await storage.queue.release(lease);
    await wait.over;
    await storage.queue.release(await claimOne(storage.queue), now() + 500);
    const next = await waiting(storage.queue);
    await harness.clock.advance(500);
    await next.over;
    await claimOne(storage.queue);
  });

  law("wakes when a pause ends or is lifted", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()), due("b", 1, now()));
    await storage.queue.pause("sub_a", 1_000);
    await storage.queue.pause("sub_b", 90_000);
    const wait = await waiting(storage.queue);
    await harness.clock.advance(1_000);
    await wait.over;
    expect(await claimOne(storage.queue)).toMatchObject({ subscriptionId: "sub_a" });
    const next = await waiting(storage.queue);
    await storage.queue.pause("sub_b", 0);
    await next.over;
    await claimOne(storage.queue);
  });

  law("wakes when a hold ends or is lifted, and not before", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()), due("b", 1, now()));
    await storage.queue.hold("sub_a", 1_000);
    await storage.queue.hold("sub_b", 90_000);
    const wait = await waiting(storage.queue);
    await harness.clock.advance(900);
    await settled();
    expect(wait.ended).toBe(false);
    await harness.clock.advance(100);
    await wait.over;
    expect(await claimOne(storage.queue)).toMatchObject({ subscriptionId: "sub_a" });
    const next = await waiting(storage.queue);
    await storage.queue.hold("sub_b", 0);
    await next.over;
    await claimOne(storage.queue);
  });

  law("wakes when a subscription that had enough under way has room again", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()), due("a", 2, now()));
    const [lease] = await claim(storage.queue, { perSubscription: 1 });
    const busy = new Map([["sub_a", 1]]);
    expect(await claim(storage.queue, { perSubscription: 1, busy })).toEqual([]);
    const stop = new AbortController();
    const woken = storage.queue.wake(stop.signal);
    if (lease === undefined) throw new Error("nothing was claimed");
    await storage.queue.settle(lease, [endOf(lease)]);
    await woken;
    expect(await claim(storage.queue, { perSubscription: 1 })).toHaveLength(1);
  });

  law("wakes after a claim that its limit cut short", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()), due("a", 2, now()));
    await claim(storage.queue, { limit: 1 });
    await storage.queue.wake(new AbortController().signal);
    await claimOne(storage.queue);
  });

  law(
    "wakes after a sweep that found something",
    async () => {
      const storage = await open();
      const wait = await waiting(storage.queue);
      await storage.commit([lineOf(due("a", 1, now()))]);
      expect(await storage.queue.sweep()).toBe(1);
      await wait.over;
      await claimOne(storage.queue);
    },
    "untold",
  );

  law("ends when its signal aborts, without an error, and stays asleep otherwise", async () => {
    const storage = await open();
    const [wait, other] = [await waiting(storage.queue), await waiting(storage.queue)];
    wait.stop();
    await wait.over;
    expect(other.ended).toBe(false);
    other.stop();
    await other.over;
    const aborted = AbortSignal.abort();
    await storage.queue.wake(aborted);
  });
}
