/**
 * Laws of `lend` and `empty`, which a queue may lack: a line that its own node has just written is leased at birth, where
 * nobody waits. And of plain ends, which may be made durable together.
 */
import { expect } from "vitest";
import { ConflictError } from "../../core/model/errors.ts";
import { DUE } from "../../core/model/schema.ts";
import type { Due } from "../../core/model/delivery.ts";
import type { Lease, Storage } from "../../core/ports/storage.ts";
import { claim, claimOne, due, endOf, enqueue, lineOf } from "./queue.ts";
import type { Bench } from "./storage.ts";

export function birthLaws({ open, law, harness }: Bench): void {
  const now = (): number => harness.clock.now();

  /** A law of storages that lend: `birth` commits a line and asks for its lease. */
  function lendLaw(
    name: string,
    prove: (storage: Storage, birth: (one: Due) => Promise<Lease | undefined>) => Promise<void>,
  ): void {
    law(name, async () => {
      const storage = await open();
      if (storage.queue.lend === undefined) return;
      await storage.queue.sweep();
      await prove(storage, async (one) => {
        await storage.commit([lineOf(one)]);
        return storage.queue.lend?.(one);
      });
    });
  }

  lendLaw("lends a line at birth, once, and settles it like every other", async (storage, birth) => {
    const one = due("a", 1, now());
    const lease = (await birth(one)) as Lease;
    expect(lease).toMatchObject(one);
    expect(lease.token).not.toBe("");
    expect(await storage.queue.extend(lease)).toBe(true);
    expect(storage.queue.lend?.(one)).toBeUndefined();
    storage.queue.add([one]);
    await storage.queue.sweep();
    expect(await claim(storage.queue)).toEqual([]);
    expect(await storage.queue.withdraw(one, [endOf(one)])).toBe(false);
    expect(await storage.queue.depth()).toMatchObject({ waiting: 0, leased: 1 });
    const next = due("a", 1, now() + 5_000, { attempts: 1 });
    await storage.queue.settle(lease, [endOf(one), lineOf(next)], { next });
    await harness.clock.advance(5_000);
    expect(await claimOne(storage.queue)).toMatchObject(next);
  });

  lendLaw("gives back what was lent: the next claim has it, and a cancel ends it", async (storage, birth) => {
    const [one, other] = [due("a", 1, now()), due("b", 2, now())];
    await storage.queue.release((await birth(one)) as Lease);
    expect(await claimOne(storage.queue)).toMatchObject(one);
    const lease = (await birth(other)) as Lease;
    await storage.queue.cancel("sub_b");
    expect(await storage.queue.extend(lease)).toBe(false);
    expect(await storage.getItem(DUE.key(other))).toBe(DUE.write(other));
  });

  lendLaw("lends nothing while a line waits, of its own subscription or another", async (storage, birth) => {
    const first = due("a", 1, now());
    await enqueue(storage, first);
    for (const one of [due("a", 2, now()), due("b", 3, now())]) {
      expect(await birth(one)).toBeUndefined();
      storage.queue.add([one]);
    }
    expect((await claim(storage.queue, { limit: 1 }))[0]).toMatchObject(first);
    expect(await birth(due("c", 4, now()))).toBeUndefined();
    expect(await claim(storage.queue)).toHaveLength(2);
    expect(await birth(due("c", 5, now()))).toMatchObject({ subscriptionId: "sub_c" });
  });

  lendLaw("lends beside lines of the future, until their time has come", async (storage, birth) => {
    await enqueue(storage, due("a", 1, now() + 500, { attempts: 1 }));
    expect(await birth(due("a", 2, now()))).toBeDefined();
    expect(await birth(due("b", 3, now()))).toBeDefined();
    expect(await birth(due("b", 4, now() + 5))).toBeUndefined();
    await harness.clock.advance(500);
    expect(await birth(due("b", 5, now()))).toBeUndefined();
    expect(await claim(storage.queue)).toHaveLength(1);
  });

  lendLaw(
    "lends nothing of a subscription that is paused or held, and others' lines meanwhile",
    async (storage, birth) => {
      await storage.queue.pause("sub_a", 1_000);
      await storage.queue.hold("sub_b", 1_000);
      for (const [n, name] of ["a", "b"].entries()) {
        const one = due(name, n, now());
        expect(await birth(one)).toBeUndefined();
        storage.queue.add([one]);
      }
      expect(await birth(due("c", 3, now()))).toBeDefined();
      await storage.queue.pause("sub_a", 0);
      expect(await birth(due("c", 4, now()))).toBeUndefined();
      await harness.clock.advance(1_000);
      expect(await claim(storage.queue)).toHaveLength(2);
    },
  );

  lendLaw("lends beside a subscription that has enough under way, but nothing of its own", async (storage, birth) => {
    await enqueue(storage, due("a", 1, now()), due("a", 2, now()));
    const [lease] = await claim(storage.queue, { perSubscription: 1 });
    expect(await birth(due("a", 3, now()))).toBeUndefined();
    expect(await birth(due("b", 4, now()))).toBeDefined();
    await storage.queue.settle(lease as Lease, [endOf(lease as Lease)]);
    expect(await birth(due("b", 5, now()))).toBeUndefined();
    expect(await claim(storage.queue)).toHaveLength(1);
  });

  lendLaw("lends nothing while it does not know what storage has", async (storage, birth) => {
    const fresh = await open();
    await fresh.commit([lineOf(due("a", 1, now()))]);
    const one = due("b", 2, now());
    await fresh.commit([lineOf(one)]);
    expect(fresh.queue.lend?.(one)).toBeUndefined();
    const many = Array.from({ length: harness.backlog ?? 25_000 }, (_, i) => due("many", i, now() + 1_000));
    await storage.commit(many.map(lineOf));
    await storage.queue.sweep();
    expect(await birth(due("many", 99_001, now()))).toBeUndefined();
    // It looks through what it has no room for first, in the background of claims.
    while (storage.queue.empty?.() === false) expect(await claim(storage.queue)).toEqual([]);
    expect(await birth(due("many", 99_002, now()))).toBeDefined();
    await harness.clock.advance(1_000);
    expect(await birth(due("many", 99_003, now()))).toBeUndefined();
  });

  law("is empty when nothing is due, whatever is under way, and not before storage was read", async () => {
    const storage = await open();
    const { queue } = storage;
    if (queue.empty === undefined) return;
    expect(queue.empty()).toBe(false);
    await queue.sweep();
    expect(queue.empty()).toBe(true);
    await enqueue(storage, due("a", 1, now()), due("a", 2, now()), due("b", 3, now() + 500));
    expect(queue.empty()).toBe(false);
    const [lease] = await claim(queue, { perSubscription: 1 });
    // A slot that comes free may be its.
    expect(queue.empty()).toBe(false);
    expect(await claim(queue)).toHaveLength(1);
    expect(await claim(queue)).toEqual([]);
    expect(queue.empty()).toBe(true);
    const woken = queue.wake(new AbortController().signal);
    await harness.clock.advance(500);
    await woken;
    expect(queue.empty()).toBe(false);
    await claimOne(queue);
    await claim(queue);
    expect(queue.empty()).toBe(true);
    await queue.release(lease as Lease);
    expect(queue.empty()).toBe(false);
  });

  law(
    "ends many deliveries at once, each by itself: one that is refused harms no other, and keeps its lease",
    async () => {
      const storage = await open();
      await storage.queue.sweep();
      await enqueue(storage, ...Array.from({ length: 30 }, (_, i) => due("abc".charAt(i % 3), i, now())));
      const leases = await claim(storage.queue);
      const moved = (i: number): boolean => i % 10 === 3;
      const ends = await Promise.allSettled([
        ...leases.map((lease, i) =>
          storage.queue.settle(lease, [
            { op: "delete", key: DUE.key(lease), if: moved(i) ? "moved" : DUE.write(lease) },
            { op: "put", key: `delivery:${lease.subscriptionId}:${lease.ordinal}`, value: "delivered" },
          ]),
        ),
        storage.commit([lineOf(due("d", 99, now()))]),
      ]);
      expect(ends.map(({ status }) => status === "fulfilled")).toEqual(ends.map((_, i) => !moved(i)));
      const kept = leases.filter((_, i) => moved(i));
      for (const end of ends) if (end.status === "rejected") expect(end.reason).toBeInstanceOf(ConflictError);
      const left = await storage.getKeys("due:sub_", {});
      expect(left.toSorted()).toEqual(
        [...kept.map((lease) => DUE.key(lease)), DUE.key(due("d", 99, now()))].toSorted(),
      );
      expect(await storage.getKeys("delivery:", {})).toHaveLength(27);
      expect(await storage.queue.depth()).toMatchObject({ leased: 3 });
      for (const lease of kept) {
        expect(await storage.queue.extend(lease)).toBe(true);
        await storage.queue.settle(lease, [endOf(lease)]);
      }
    },
    "conditions",
    "atomic",
  );

  law("has stored an end when it resolves, also one that nothing else follows", async () => {
    const storage = await open();
    await storage.queue.sweep();
    await enqueue(storage, due("a", 1, now()));
    const lease = await claimOne(storage.queue);
    await claim(storage.queue);
    await storage.queue.settle(lease, [endOf(lease)]);
    expect(await storage.range("due:")).toEqual([]);
  });
}
