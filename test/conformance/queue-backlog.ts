/** Laws of the window: storage is the truth, the queue holds the next of it, and no backlog can fill it. */
import { expect } from "vitest";
import { DUE } from "../../core/model/schema.ts";
import type { Due } from "../../core/model/delivery.ts";
import type { Lease, Storage } from "../../core/ports/storage.ts";
import { claim, claimOne, due, endOf, enqueue, lineOf } from "./queue.ts";
import type { Bench } from "./storage.ts";

async function store(storage: Storage, dues: readonly Due[]): Promise<void> {
  for (let i = 0; i < dues.length; i += 1_000) await storage.commit(dues.slice(i, i + 1_000).map(lineOf));
}

/** Works until nothing is due, and says what was claimed, in order. */
async function drain(storage: Storage, each?: (leases: readonly Lease[]) => Promise<void>): Promise<readonly string[]> {
  const seen: string[] = [];
  for (let idle = 0; idle < 2;) {
    const leases = await claim(storage.queue, { limit: 512, perSubscription: 512 });
    idle = leases.length === 0 ? idle + 1 : 0;
    if (leases.length === 0) await storage.queue.sweep();
    seen.push(...leases.map((due) => DUE.key(due)));
    await Promise.all(leases.map((lease) => storage.queue.settle(lease, [endOf(lease)])));
    await each?.(leases);
  }
  return seen;
}

export function backlogLaws({ open, reopen, law, harness }: Bench): void {
  const now = (): number => harness.clock.now();
  const backlog = harness.backlog ?? 25_000;

  law(
    "finds by a sweep what nobody told of, once",
    async () => {
      const storage = await open();
      const told = due("a", 1, now());
      const untold = [due("a", 2, now()), due("b", 3, now() + 100), due("a~", 4, now()), due("ab", 5, now())];
      await store(storage, untold);
      await enqueue(storage, told);
      const lease = (await claim(storage.queue, { limit: 1 }))[0] as Lease;
      expect(await storage.queue.sweep()).toBe(4);
      expect(await storage.queue.sweep()).toBe(0);
      const found = await claim(storage.queue);
      expect([lease, ...found].map((due) => DUE.key(due)).toSorted()).toEqual(
        [told, ...untold]
          .filter(({ dueAt }) => dueAt <= now())
          .map((due) => DUE.key(due))
          .toSorted(),
      );
    },
    "untold",
  );

  law(
    "loses nothing when it is lost itself: a sweep refills it, leases and all",
    async () => {
      const storage = await open();
      const dues = Array.from({ length: 30 }, (_, i) => due("abc".charAt(i % 3), i, now() - i));
      await enqueue(storage, ...dues);
      const leases = await claim(storage.queue, { limit: 10 });
      for (const lease of leases.slice(0, 3)) await storage.queue.settle(lease, [endOf(lease)]);
      const ended = new Set(leases.slice(0, 3).map((due) => DUE.key(due)));
      const again = await reopen(storage);
      await harness.lapse?.(again);
      await again.queue.sweep();
      const left = dues.map((due) => DUE.key(due)).filter((key) => !ended.has(key));
      expect((await claim(again.queue)).map((due) => DUE.key(due)).toSorted()).toEqual(left.toSorted());
    },
    "reopen",
  );

  law(
    "one subscription's backlog holds up no other, and is itself delivered whole, each line once",
    async () => {
      const storage = await open();
      const dead = Array.from({ length: backlog }, (_, i) => due("dead", i, now() - backlog + i));
      await store(storage, dead);
      await storage.queue.sweep();
      expect((await storage.queue.depth()).oldestDueAt).toBe(now() - backlog);
      await enqueue(storage, due("live", 1, now()), due("live", 2, now()));
      const first = await claim(storage.queue, { limit: 4 });
      expect(first.filter(({ subscriptionId }) => subscriptionId === "sub_live")).toHaveLength(2);
      // Oldest first, from the first line on.
      expect(first.filter(({ subscriptionId }) => subscriptionId === "sub_dead").map((due) => DUE.key(due))).toEqual(
        dead.slice(0, 2).map((due) => DUE.key(due)),
      );
      for (const lease of first) await storage.queue.settle(lease, [endOf(lease)]);
      const late: Due[] = [];
      const seen = await drain(storage, async (leases) => {
        // New ones come while it drains.
        if (leases.length === 0 || late.length >= 50) return;
        const fresh = due("dead", backlog + late.length, now());
        late.push(fresh);
        await enqueue(storage, fresh);
      });
      expect(seen.length).toBe(backlog - 2 + late.length);
      expect(new Set(seen)).toEqual(new Set([...dead.slice(2), ...late].map((due) => DUE.key(due))));
      expect(await storage.getKeys("due:", {})).toEqual([]);
      expect(await storage.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
    },
    "slow",
  );

  law(
    "serves more subscriptions than the window has lines",
    async () => {
      const storage = await open();
      const half = Math.floor(backlog / 4);
      const dues = Array.from({ length: half * 2 }, (_, i) => due(`s${i}`, i, now() - 10));
      await store(storage, dues.slice(0, half));
      await storage.queue.sweep();
      for (let i = half; i < dues.length; i += 1_000) await enqueue(storage, ...dues.slice(i, i + 1_000));
      const seen = await drain(storage);
      expect(seen.length).toBe(dues.length);
      expect(new Set(seen).size).toBe(dues.length);
    },
    "slow",
  );

  law(
    "what waits for later crowds out nothing that is due now",
    async () => {
      const storage = await open();
      const later = Array.from({ length: backlog / 2 }, (_, i) => due(`w${i % 1_000}`, i, now() + 60_000 + i));
      for (let i = 0; i < later.length; i += 1_000) await enqueue(storage, ...later.slice(i, i + 1_000));
      await enqueue(storage, due("new", 1, now()));
      expect(await claimOne(storage.queue)).toMatchObject({ subscriptionId: "sub_new" });
      await harness.clock.advance(60_000 + backlog);
      const seen = await drain(storage);
      expect(new Set(seen)).toEqual(new Set([...later].map((due) => DUE.key(due))));
      expect(seen.length).toBe(later.length);
    },
    "slow",
  );
}
