import { describe, expect, it } from "vitest";
import type { Lease } from "../../core/ports/storage.ts";
import { claim, claimOne, due, endOf, enqueue } from "../conformance/queue.ts";
import { useTwoNodes } from "../support/hosted-storage.ts";

const twoNodes = useTwoNodes();

describe("deliveries handed out to threads", () => {
  it("what a node adds is given to that node, and no other one is woken", async () => {
    const { clock, one, two } = await twoNodes();
    const never = new AbortController();
    for (const node of [one, two]) expect(await claim(node.queue)).toEqual([]);
    let others = 0;
    void two.queue.wake(never.signal).then(() => others++);
    for (let n = 0; n < 5; n++) {
      const woken = one.queue.wake(never.signal);
      await enqueue(one, due("a", n, clock.now()));
      await woken;
      const lease = await claimOne(one.queue);
      await one.queue.settle(lease, [endOf(lease)]);
      expect(await claim(one.queue)).toEqual([]);
    }
    await two.queue.depth();
    expect(others).toBe(0);
  });

  it("what the node that adds it has no room for is given to another that waits", async () => {
    const { clock, one, two } = await twoNodes();
    const never = new AbortController();
    const nodes = [one, two];
    for (const node of nodes) expect(await claim(node.queue, { perSubscription: 1 })).toEqual([]);
    const woken = nodes.map((node) => node.queue.wake(never.signal));
    await enqueue(one, ...[1, 2, 3, 4].map((n) => due("a", n, clock.now())));
    const firsts = nodes.map(async ({ queue }, i) => {
      await woken[i];
      return claim(queue, { perSubscription: 1 });
    });
    const leases = (await Promise.all(firsts)).flat();
    expect(new Set(leases.map(({ ordinal }) => ordinal)).size).toBe(2);
    const [first] = leases;
    const busy = new Map([["sub_a", 1]]);
    for (const node of nodes) expect(await claim(node.queue, { perSubscription: 1, busy })).toEqual([]);
    const again = two.queue.wake(never.signal);
    await one.queue.settle(first as Lease, [endOf(first as Lease)]);
    await again;
    expect(await claim(two.queue)).toHaveLength(2);
  });

  it("what a node added is given to another when it has ended, or when it does not wait", async () => {
    const { clock, hosted, one, two } = await twoNodes();
    const never = new AbortController();
    expect(await claim(two.queue)).toEqual([]);
    const woken = two.queue.wake(never.signal);
    await enqueue(one, due("a", 1, clock.now()));
    await woken;
    await claimOne(two.queue);
    const again = two.queue.wake(never.signal);
    await enqueue(one, due("a", 2, clock.now() + 1_000));
    await one.queue.depth();
    await hosted.end(one);
    await clock.advance(1_000);
    await again;
    await claimOne(two.queue);
  });

  it("what is given to a node that no longer waits goes to another", async () => {
    const { clock, one, two } = await twoNodes();
    for (const node of [one, two]) expect(await claim(node.queue)).toEqual([]);
    const stop = new AbortController();
    const stopped = one.queue.wake(stop.signal);
    // It is given a delivery after it has stopped to wait.
    await two.queue.depth();
    stop.abort();
    await stopped;
    const woken = two.queue.wake(new AbortController().signal);
    await enqueue(one, due("a", 1, clock.now()));
    await woken;
    await claimOne(two.queue);
  });

  it("a node that gave no sign of life for a while is given nothing", async () => {
    const { clock, one, two } = await twoNodes();
    for (const node of [one, two]) expect(await claim(node.queue)).toEqual([]);
    const never = new AbortController();
    void one.queue.wake(never.signal);
    await enqueue(one, due("a", 1, clock.now() + 10_000));
    const woken = two.queue.wake(never.signal);
    await one.queue.depth();
    await clock.advance(10_000);
    // Both are silent for long now. Each is woken, and who lives claims.
    await woken;
    await claimOne(two.queue);
  });

  it("a node that comes to wait after another one could not take a delivery is given it", async () => {
    const { clock, one, two } = await twoNodes();
    expect(await claim(two.queue)).toEqual([]);
    await enqueue(one, due("a", 1, clock.now()));
    // The signal comes before the node waits, and a claim of the other one ends it.
    await one.queue.depth();
    expect(await claim(one.queue, { perSubscription: 1, busy: new Map([["sub_a", 1]]) })).toEqual([]);
    await two.queue.wake(new AbortController().signal);
    await claimOne(two.queue);
  });

  it("what is due is handed out although the queue fails to say when", async () => {
    const { clock, inner, one } = await twoNodes();
    const { wake } = inner.queue;
    let failures = 3;
    Object.assign(inner.queue, {
      wake: (signal: AbortSignal) => (failures-- > 0 ? Promise.reject(new Error("broken")) : wake(signal)),
    });
    expect(await claim(one.queue)).toEqual([]);
    const never = new AbortController();
    for (let n = 0; n < 4; n++) {
      const woken = one.queue.wake(never.signal);
      await enqueue(one, due("a", n, clock.now()));
      await one.queue.depth();
      await clock.advance(1_000);
      await woken;
      const lease = await claimOne(one.queue);
      await one.queue.settle(lease, [endOf(lease)]);
      expect(await claim(one.queue)).toEqual([]);
    }
    expect(failures).toBeLessThan(0);
  });
});
