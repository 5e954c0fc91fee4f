/** The law of a storage's queue: leases, tokens, order, fairness, and that losing it loses nothing. */
import { expect } from "vitest";
import { ConflictError, LeaseLostError } from "../../core/model/errors.ts";
import { DUE } from "../../core/model/schema.ts";
import type { Due } from "../../core/model/delivery.ts";
import type { Change, ClaimRequest, Lease, Queue, Storage } from "../../core/ports/storage.ts";
import { backlogLaws } from "./queue-backlog.ts";
import { birthLaws } from "./queue-birth.ts";
import { clockLaws } from "./queue-clock.ts";
import { wakeLaws } from "./queue-wake.ts";
import { withdrawLaws } from "./queue-withdraw.ts";
import type { Bench } from "./storage.ts";

/** A due line of a subscription; `n` orders those of one time. */
export const due = (sub: string, n: number, dueAt: number, more: Partial<Due> = {}): Due => ({
  subscriptionId: `sub_${sub}`,
  keyId: "key:1",
  ordinal: `01k${String(n).padStart(23, "0")}`,
  dueAt,
  generation: 0,
  cycle: 0,
  attempts: 0,
  ...more,
});

export const lineOf = (one: Due): Change => ({ op: "put", key: DUE.key(one), value: DUE.write(one) });
export const endOf = (one: Due): Change => ({ op: "delete", key: DUE.key(one) });

/** Commits the lines and tells the queue, as intake does. */
export async function enqueue(storage: Storage, ...dues: readonly Due[]): Promise<void> {
  await storage.commit(dues.map(lineOf));
  storage.queue.add(dues);
}

export const claim = (queue: Queue, more: Partial<ClaimRequest> = {}): Promise<readonly Lease[]> =>
  queue.claim({ limit: 100, perSubscription: 100, busy: new Map(), ...more });

/** Claims one and no other. */
export async function claimOne(queue: Queue): Promise<Lease> {
  const leases = await claim(queue);
  expect(leases).toHaveLength(1);
  return leases[0] as Lease;
}

const names = (leases: readonly Due[]): readonly string[] =>
  leases.map(({ subscriptionId, ordinal }) => `${subscriptionId.slice(4)}${Number(ordinal.slice(3))}`);

const lost = (settling: Promise<void>): Promise<void> => expect(settling).rejects.toBeInstanceOf(LeaseLostError);

export function queueLaws(bench: Bench): void {
  const { open, second, law, harness } = bench;
  const now = (): number => harness.clock.now();

  law("claims nothing where nothing is due", async () => {
    const { queue } = await open();
    expect(await claim(queue)).toEqual([]);
    expect(await queue.sweep()).toBe(0);
    expect(await queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
  });

  law("leases what is due, as it stands in storage, once", async () => {
    const storage = await open();
    const one = due("a", 1, now() - 5, { generation: 2, cycle: 1, attempts: 3 });
    await enqueue(storage, one);
    const lease = await claimOne(storage.queue);
    expect(lease).toMatchObject(one);
    expect(lease.token).not.toBe("");
    expect(await claim(storage.queue)).toEqual([]);
    expect(await storage.queue.depth()).toMatchObject({ waiting: 0, leased: 1 });
    expect(await storage.getItem(DUE.key(lease))).toBe(DUE.write(one));
  });

  law("leases a line whose text is damaged as such, so that its delivery comes to an end", async () => {
    const storage = await open();
    const one = due("a", 1, now() - 5);
    for (const damaged of ["", "torn", "key:1 0 0", "key:1 0 x 0"]) {
      await storage.commit([{ op: "put", key: DUE.key(one), value: damaged }]);
      await storage.queue.sweep();
      const lease = await claimOne(storage.queue);
      expect(lease).toMatchObject({
        subscriptionId: one.subscriptionId,
        ordinal: one.ordinal,
        dueAt: one.dueAt,
        damaged,
      });
      await storage.queue.settle(lease, [{ op: "delete", key: DUE.key(lease), if: DUE.write(lease) }]);
      expect(await storage.getItem(DUE.key(one))).toBeUndefined();
    }
  });

  law("never claims the future", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now() + 1_000), due("a", 2, now()));
    expect(names(await claim(storage.queue))).toEqual(["a2"]);
    await harness.clock.advance(999);
    expect(await claim(storage.queue)).toEqual([]);
    await harness.clock.advance(1);
    expect(names(await claim(storage.queue))).toEqual(["a1"]);
  });

  law("claims the oldest of a subscription first, and no more than the limit", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 3, now() - 1), due("a", 1, now() - 9), due("a", 4, now()), due("a", 2, now() - 1));
    expect(names(await claim(storage.queue, { limit: 3 }))).toEqual(["a1", "a2", "a3"]);
    expect(names(await claim(storage.queue, { limit: 3 }))).toEqual(["a4"]);
    expect(await claim(storage.queue, { limit: 0 })).toEqual([]);
  });

  law("serves subscriptions in turn", async () => {
    const storage = await open();
    const many = Array.from({ length: 100 }, (_, i) => due("a", i, now() - 1_000 + i));
    await enqueue(storage, ...many, ...[1, 2, 3].flatMap((n) => [due("b", n, now()), due("c", n, now())]));
    const leases = await claim(storage.queue, { limit: 9 });
    expect(count(leases)).toEqual({ sub_a: 3, sub_b: 3, sub_c: 3 });
    await enqueue(storage, due("d", 1, now()), due("e", 1, now()));
    expect(count(await claim(storage.queue, { limit: 3 }))).toEqual({ sub_a: 1, sub_d: 1, sub_e: 1 });
  });

  law("serves every subscription before one of them twice, also where a claim has room for few", async () => {
    const storage = await open();
    const names = ["a", "b", "c", "d", "e", "f"];
    await enqueue(storage, ...names.flatMap((name) => [1, 2, 3, 4].map((n) => due(name, n, now()))));
    const served = [];
    for (let n = 0; n < 3; n++) served.push(...(await claim(storage.queue, { limit: 2 })));
    expect(Object.keys(count(served)).toSorted()).toEqual(names.map((name) => `sub_${name}`));
  });

  law("leaves a subscription alone that has enough under way", async () => {
    const storage = await open();
    await enqueue(storage, ...Array.from({ length: 20 }, (_, i) => due("a", i, now())), due("b", 1, now()));
    const busy = new Map([["sub_a", 5]]);
    expect(count(await claim(storage.queue, { perSubscription: 8, busy }))).toEqual({ sub_a: 3, sub_b: 1 });
    expect(await claim(storage.queue, { perSubscription: 8, busy: new Map([["sub_a", 8]]) })).toEqual([]);
    expect(count(await claim(storage.queue, { perSubscription: 8, busy: new Map() }))).toEqual({ sub_a: 8 });
  });

  law("serves those behind any number of subscriptions that have enough under way", async () => {
    const storage = await open();
    const full = Array.from({ length: 9 }, (_, i) => `full${i}`);
    await enqueue(storage, ...full.map((name, i) => due(name, i, now() - 10)));
    await enqueue(storage, due("free", 10, now()), due("open", 11, now()));
    const busy = new Map(full.map((name) => [`sub_${name}`, 1]));
    const served = [];
    for (let n = 0; n < 2; n++) served.push(...(await claim(storage.queue, { limit: 1, perSubscription: 1, busy })));
    expect(count(served)).toEqual({ sub_free: 1, sub_open: 1 });
  });

  law("knows a line only once, however often it is told", async () => {
    const storage = await open();
    const one = due("a", 1, now());
    await enqueue(storage, one);
    storage.queue.add([one, one]);
    await storage.queue.sweep();
    const lease = await claimOne(storage.queue);
    storage.queue.add([one]);
    await storage.queue.sweep();
    expect(await claim(storage.queue)).toEqual([]);
    await storage.queue.settle(lease, [endOf(lease)]);
    await storage.queue.sweep();
    expect(await claim(storage.queue)).toEqual([]);
  });

  law("settles: commits the changes and ends the lease", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()));
    const lease = await claimOne(storage.queue);
    await storage.queue.settle(lease, [endOf(lease), { op: "put", key: "delivery:sub_a:1", value: "delivered" }]);
    expect(await storage.getMany([DUE.key(lease), "delivery:sub_a:1"])).toEqual([undefined, "delivered"]);
    expect(await storage.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
    expect(await storage.queue.extend(lease)).toBe(false);
    await lost(storage.queue.settle(lease, [{ op: "put", key: "delivery:sub_a:1", value: "twice" }]));
    expect(await storage.getItem("delivery:sub_a:1")).toBe("delivered");
  });

  law("settles with a next time: it is claimed again then, and not before", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()));
    const lease = await claimOne(storage.queue);
    const next = due("a", 1, now() + 5_000, { attempts: 1 });
    await storage.queue.settle(lease, [endOf(lease), lineOf(next)], { next });
    expect(await claim(storage.queue)).toEqual([]);
    await harness.clock.advance(5_000);
    const again = await claimOne(storage.queue);
    expect(again).toMatchObject(next);
    expect(again.token).not.toBe(lease.token);
    await lost(storage.queue.settle(lease, [endOf(next)]));
    expect(await storage.getItem(DUE.key(next))).toBe(DUE.write(next));
  });

  law("settles and keeps the lease: its line is the new one, and nobody else gets it", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()));
    const lease = await claimOne(storage.queue);
    const keep = due("a", 1, now() + 5_000, { attempts: 1 });
    await storage.queue.settle(lease, [endOf(lease), lineOf(keep)], { keep });
    await harness.clock.advance(6_000);
    await storage.queue.sweep();
    expect(await claim(storage.queue)).toEqual([]);
    expect(await storage.queue.extend(lease)).toBe(true);
    await storage.queue.release(lease);
    const again = await claimOne(storage.queue);
    expect(again).toMatchObject(keep);
    await storage.queue.settle(again, [endOf(again)]);
    expect(await storage.range("due:")).toEqual([]);
  });

  law(
    "keeps a lease whose commit was refused, so that it can be settled otherwise",
    async () => {
      const storage = await open();
      await enqueue(storage, due("a", 1, now()));
      const lease = await claimOne(storage.queue);
      const refused = storage.queue.settle(lease, [endOf(lease), { op: "check", key: "meta:none", if: "there" }]);
      await expect(refused).rejects.toBeInstanceOf(ConflictError);
      expect(await storage.queue.extend(lease)).toBe(true);
      expect(await claim(storage.queue)).toEqual([]);
      await storage.queue.settle(lease, [endOf(lease)]);
      expect(await storage.range("due:")).toEqual([]);
    },
    "conditions",
  );

  law("refuses a token that it did not give, and changes nothing", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()));
    const lease = await claimOne(storage.queue);
    for (const forged of [
      { ...lease, token: `${lease.token}0` },
      { ...lease, token: "" },
      { ...lease, subscriptionId: "sub_b" },
    ]) {
      expect(await storage.queue.extend(forged)).toBe(false);
      await lost(storage.queue.settle(forged, [endOf(lease)]));
      await storage.queue.release(forged);
    }
    expect(await storage.getItem(DUE.key(lease))).toBe(DUE.write(lease));
    await storage.queue.settle({ ...lease }, [endOf(lease)]);
  });

  law("gives back unharmed: due again at once, the stored line as it was", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now() - 5, { attempts: 2 }));
    const lease = await claimOne(storage.queue);
    await storage.queue.release(lease);
    expect(await storage.queue.extend(lease)).toBe(false);
    await lost(storage.queue.settle(lease, [endOf(lease)]));
    const again = await claimOne(storage.queue);
    expect(again).toMatchObject({ attempts: 2, dueAt: now() - 5 });
    expect(await storage.getItem(DUE.key(again))).toBe(DUE.write(again));
  });

  law("gives back for later: not claimed before, and the lease still names the stored line", async () => {
    const storage = await open();
    const one = due("a", 1, now());
    await enqueue(storage, one);
    await storage.queue.release(await claimOne(storage.queue), now() + 2_000);
    await storage.queue.sweep();
    await harness.clock.advance(1_999);
    expect(await claim(storage.queue)).toEqual([]);
    await harness.clock.advance(1);
    const again = await claimOne(storage.queue);
    expect(DUE.key(again)).toBe(DUE.key(one));
    await storage.queue.settle(again, [endOf(again)]);
    expect(await storage.range("due:")).toEqual([]);
  });

  law("pauses one subscription and no other, until its time or until it is lifted", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()), due("b", 1, now()));
    await storage.queue.pause("sub_a", 1_000);
    await storage.queue.pause("sub_c", 1_000);
    await enqueue(storage, due("a", 2, now()), due("c", 1, now()));
    expect(names(await claim(storage.queue))).toEqual(["b1"]);
    await storage.queue.pause("sub_c", 0);
    expect(names(await claim(storage.queue))).toEqual(["c1"]);
    await harness.clock.advance(999);
    await storage.queue.sweep();
    expect(await claim(storage.queue)).toEqual([]);
    await harness.clock.advance(1);
    expect(names(await claim(storage.queue))).toEqual(["a1", "a2"]);
  });

  law("holds one subscription back until its time or until it is lifted, whatever a pause does meanwhile", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()), due("b", 1, now()), due("c", 1, now()));
    await storage.queue.hold("sub_a", 1_000);
    await storage.queue.hold("sub_b", 1_000);
    await storage.queue.pause("sub_b", 2_000);
    await storage.queue.hold("sub_c", 60_000);
    await enqueue(storage, due("a", 2, now()), due("c", 2, now()));
    expect(await claim(storage.queue)).toEqual([]);
    await storage.queue.hold("sub_b", 0);
    await storage.queue.pause("sub_c", 0);
    expect(await claim(storage.queue)).toEqual([]);
    await storage.queue.hold("sub_c", 0);
    expect(names(await claim(storage.queue))).toEqual(["c1", "c2"]);
    await harness.clock.advance(1_000);
    expect(names(await claim(storage.queue))).toEqual(["a1", "a2"]);
    await harness.clock.advance(1_000);
    expect(names(await claim(storage.queue))).toEqual(["b1"]);
  });

  law("holds back what was claimed and given back, and no other subscription waits for it", async () => {
    const storage = await open();
    await enqueue(storage, ...Array.from({ length: 20 }, (_, i) => due("a", i, now())), due("b", 1, now()));
    const leases = (await claim(storage.queue)).filter(({ subscriptionId }) => subscriptionId === "sub_a");
    await storage.queue.hold("sub_a", 5_000);
    for (const lease of leases) await storage.queue.release(lease);
    await storage.queue.sweep();
    await enqueue(storage, due("c", 1, now()));
    expect(names(await claim(storage.queue, { limit: 1 }))).toEqual(["c1"]);
    expect(await claim(storage.queue)).toEqual([]);
    await storage.queue.hold("sub_a", 0);
    expect(await claim(storage.queue)).toHaveLength(20);
  });

  law("a pause lets what is under way go on", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()));
    const lease = await claimOne(storage.queue);
    await storage.queue.pause("sub_a", 60_000);
    expect(await storage.queue.extend(lease)).toBe(true);
    await storage.queue.settle(lease, [endOf(lease)]);
    expect(await storage.range("due:")).toEqual([]);
  });

  law("cancels: what waits is dropped and every lease is lost, of this subscription alone", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()), due("b", 1, now()));
    const leases = await claim(storage.queue);
    await enqueue(storage, due("a", 2, now()), due("b", 2, now()));
    await storage.queue.cancel("sub_a");
    const [a, b] = leases.toSorted((x, y) => (x.subscriptionId < y.subscriptionId ? -1 : 1)) as [Lease, Lease];
    expect(await storage.queue.extend(a)).toBe(false);
    await lost(storage.queue.settle(a, [endOf(a)]));
    await storage.queue.release(a);
    expect(await storage.getItem(DUE.key(a))).toBe(DUE.write(a));
    expect(await storage.queue.extend(b)).toBe(true);
    expect(names(await claim(storage.queue))).toEqual(["b2"]);
    await storage.queue.settle(b, [endOf(b)]);
    await storage.queue.cancel("sub_none");
  });

  law("serves a subscription again after a cancel", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now()));
    await storage.queue.cancel("sub_a");
    await storage.commit([endOf(due("a", 1, now()))]);
    await enqueue(storage, due("a", 2, now(), { generation: 1 }));
    expect(await claimOne(storage.queue)).toMatchObject({ generation: 1 });
  });

  law("a sweep finds what a cancel dropped, also when nothing was missing before it", async () => {
    const storage = await open();
    await enqueue(storage, ...Array.from({ length: 3 }, (_, i) => due("a", i, now())));
    await storage.queue.sweep();
    await storage.queue.cancel("sub_a");
    expect(await claim(storage.queue)).toEqual([]);
    expect(await storage.queue.sweep()).toBe(3);
    expect(names(await claim(storage.queue))).toEqual(["a0", "a1", "a2"]);
  });

  law("a settle that a cancel meets has either happened before the cancel resolves, or never does", async () => {
    const storage = await open();
    await enqueue(storage, ...Array.from({ length: 20 }, (_, i) => due("a", i, now())));
    const leases = await claim(storage.queue);
    const settling = leases.map((lease) =>
      storage.queue.settle(lease, [endOf(lease)]).then(
        () => "settled",
        (error: unknown) => (error instanceof LeaseLostError ? "lost" : error),
      ),
    );
    await storage.queue.cancel("sub_a");
    const left = new Set(await storage.getKeys("due:", {}));
    const ends = await Promise.all(settling);
    for (const [i, lease] of leases.entries()) expect(ends[i]).toBe(left.has(DUE.key(lease)) ? "lost" : "settled");
    expect(new Set(await storage.getKeys("due:", {}))).toEqual(left);
  });

  law("counts what waits and what is leased, and names the oldest that is due", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now() - 50), due("a", 2, now() - 20), due("b", 1, now() + 500));
    expect(await storage.queue.depth()).toEqual({ waiting: 3, leased: 0, oldestDueAt: now() - 50 });
    const [lease] = await claim(storage.queue, { limit: 1 });
    expect(await storage.queue.depth()).toEqual({ waiting: 2, leased: 1, oldestDueAt: now() - 20 });
    await storage.queue.settle(lease as Lease, [endOf(lease as Lease)]);
    expect(await storage.queue.depth()).toMatchObject({ waiting: 2, leased: 0 });
  });

  law("what is paused is not late: the oldest that is due is one that may be claimed", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, now() - 90_000), due("b", 1, now() - 20));
    await storage.queue.pause("sub_a", 60_000);
    expect(await storage.queue.depth()).toMatchObject({ waiting: 2, oldestDueAt: now() - 20 });
    await claim(storage.queue, { limit: 10 });
    expect((await storage.queue.depth()).oldestDueAt).toBeUndefined();
    await storage.queue.pause("sub_a", 0);
    expect((await storage.queue.depth()).oldestDueAt).toBe(now() - 90_000);
  });

  law("counts what is pending of some subscriptions, whether it waits, is leased or held back", async () => {
    const storage = await open();
    expect(await storage.queue.pending([])).toBe(0);
    await enqueue(
      storage,
      ...Array.from({ length: 300 }, (_, i) => due("a", i, now() + i)),
      ...[1, 2].map((n) => due("b", n, now())),
      due("bb", 1, now()),
    );
    await storage.queue.hold("sub_b", 60_000);
    const leases = await claim(storage.queue, { limit: 2 });
    expect(await storage.queue.pending(["sub_a", "sub_b", "sub_none"])).toBe(302);
    for (const lease of leases) await storage.queue.settle(lease, [endOf(lease)]);
    const ended = leases.filter(({ subscriptionId }) => subscriptionId === "sub_a").length;
    expect(await storage.queue.pending(["sub_a"])).toBe(300 - ended);
    expect(await storage.queue.pending(["sub_b"])).toBe(2);
  });

  law(
    "takes a lapsed lease away from a silent holder, who can change nothing any more",
    async () => {
      const storage = await open();
      await enqueue(storage, due("a", 1, now()));
      const lease = await claimOne(storage.queue);
      await harness.lapse?.(storage);
      await storage.queue.sweep();
      const newer = await claimOne(storage.queue);
      expect(newer.token).not.toBe(lease.token);
      expect(await storage.queue.extend(lease)).toBe(false);
      await lost(storage.queue.settle(lease, [endOf(lease)]));
      await storage.queue.release(lease);
      expect(await storage.queue.extend(newer)).toBe(true);
      await storage.queue.settle(newer, [endOf(newer)]);
      expect(await storage.range("due:")).toEqual([]);
    },
    "lapse",
  );

  law(
    "gives what a silent holder kept for later to nobody before its time",
    async () => {
      const storage = await open();
      await enqueue(storage, due("a", 1, now()));
      const lease = await claimOne(storage.queue);
      const keep = due("a", 1, now() + 3_600_000, { attempts: 1 });
      await storage.queue.settle(lease, [endOf(lease), lineOf(keep)], { keep });
      await harness.lapse?.(storage);
      await storage.queue.sweep();
      expect(await claim(storage.queue)).toEqual([]);
      expect(await storage.queue.depth()).toMatchObject({ waiting: 1, leased: 0 });
      expect(await storage.queue.extend(lease)).toBe(false);
      await harness.clock.advance(keep.dueAt - now() - 1);
      expect(await claim(storage.queue)).toEqual([]);
      await harness.clock.advance(1);
      expect(await claimOne(storage.queue)).toMatchObject(keep);
    },
    "lapse",
  );

  law(
    "keeps what is renewed with its holder for as long as that goes on",
    async () => {
      const storage = await open();
      await enqueue(storage, due("a", 1, now()), due("b", 1, now()));
      const leases = await claim(storage.queue);
      const keep = due("b", 1, now() + 86_400_000, { attempts: 1 });
      const held = leases.find(({ subscriptionId }) => subscriptionId === "sub_b") as Lease;
      await storage.queue.settle(held, [endOf(held), lineOf(keep)], { keep });
      const { everyMs = 0, renew } = storage.queue.renewal ?? {};
      for (let i = 0; i < 10; i++) {
        await harness.clock.advance(everyMs);
        await renew?.(leases);
        expect(await claim(storage.queue)).toEqual([]);
      }
      expect(await storage.queue.depth()).toMatchObject({ leased: 2 });
      await storage.queue.cancel("sub_a");
      await renew?.(leases);
      for (const lease of leases) expect(await storage.queue.extend(lease)).toBe(lease === held);
      await storage.queue.settle(held, [endOf(keep)]);
      await renew?.(leases);
      expect(await storage.queue.depth()).toMatchObject({ leased: 0 });
    },
    "lapse",
  );

  law(
    "gives a delivery to one of two nodes only, and a cancel on one is felt on the other",
    async () => {
      const storage = await open();
      const other = await second(storage);
      await enqueue(storage, ...Array.from({ length: 50 }, (_, i) => due(i % 2 === 0 ? "a" : "b", i, now())));
      await other.queue.sweep();
      const both = await Promise.all([claim(storage.queue, { limit: 30 }), claim(other.queue, { limit: 30 })]);
      const all = names(both.flat());
      expect(new Set(all).size).toBe(all.length);
      expect(all).toHaveLength(50);
      await storage.queue.cancel("sub_a");
      for (const lease of both[1]) {
        expect(await other.queue.extend(lease)).toBe(lease.subscriptionId === "sub_b");
        if (lease.subscriptionId === "sub_a") await lost(other.queue.settle(lease, [endOf(lease)]));
      }
    },
    "nodes",
  );

  birthLaws(bench);
  withdrawLaws(bench);
  wakeLaws(bench);
  backlogLaws(bench);
  clockLaws(bench);
}

function count(leases: readonly Lease[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { subscriptionId: id } of leases) counts[id] = (counts[id] ?? 0) + 1;
  return counts;
}
