/**
 * The in-process queue on a random walk, over a storage whose answers take their time, with a window so small that most
 * lines are never in it. The laws of the port are in test/conformance; here it is driven into corners.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LeaseLostError } from "../../core/model/errors.ts";
import { DUE } from "../../core/model/schema.ts";
import type { Due } from "../../core/model/delivery.ts";
import type { Change, Lease } from "../../core/ports/storage.ts";
import { EmbeddedQueue } from "../../plugins/storage/embedded/queue.ts";
import { sortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { due } from "../conformance/queue.ts";
import { testClock } from "../support/clock.ts";

const SUBS = ["a", "b", "ab", "c"];
const sub = fc.constantFrom(...SUBS);
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("publish" as const), sub, in: fc.nat(40), told: fc.boolean() }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("claim" as const),
      limit: fc.integer({ min: 1, max: 6 }),
      per: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("end" as const), pick: fc.nat(20) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("retry" as const), pick: fc.nat(20), in: fc.nat(50), told: fc.boolean() }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("keep" as const), pick: fc.nat(20), in: fc.nat(50) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("release" as const),
      pick: fc.nat(20),
      in: fc.option(fc.nat(50), { nil: undefined }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("pause" as const), sub, for: fc.nat(30) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("cancel" as const), sub }) },
  { weight: 2, arbitrary: fc.constant({ do: "sweep" as const }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("advance" as const), ms: fc.nat(30) }) },
  { weight: 3, arbitrary: fc.constant({ do: "turn" as const }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

class Walk {
  readonly clock = testClock(1_000_000);
  readonly map = sortedMap();
  readonly under = new Set<Promise<unknown>>();
  readonly leases: Lease[] = [];
  /** Deliveries that someone may work on, and those that have ended. */
  readonly held = new Map<string, string>();
  readonly ended = new Set<string>();
  readonly cancelled = new Set<string>();
  readonly lines = new Map<string, Due>();
  readonly delays: readonly number[];
  /** Given back as due at once, whatever their line says. */
  readonly early = new Set<string>();
  readonly failures: unknown[] = [];
  calls = 0;
  made = 0;
  readonly queue;

  constructor(delays: readonly number[], window: number) {
    this.delays = delays;
    this.queue = new EmbeddedQueue(
      {
        count: async (prefix) => this.map.count(prefix),
        // A page shows the storage as it was at some moment between the question and the answer.
        range: async (prefix, options) => {
          await this.lag();
          const page = this.map.range(prefix, options);
          await this.lag();
          return page;
        },
        commit: async (changes) => {
          await this.lag();
          this.write(changes);
          await this.lag();
        },
      },
      this.clock,
      window,
    );
  }

  async lag(): Promise<void> {
    const turns = this.delays[this.calls++ % this.delays.length] ?? 0;
    for (let i = 0; i < turns; i++) await turn();
  }

  write(changes: readonly Change[]): void {
    for (const change of changes) {
      if (change.op === "put") this.map.set(change.key, change.value);
      else if (change.op === "delete") this.map.delete(change.key);
    }
  }

  start(work: Promise<unknown>): void {
    const own = work.then(
      () => void this.under.delete(own),
      (error: unknown) => {
        this.under.delete(own);
        this.failures.push(error);
      },
    );
    this.under.add(own);
  }

  async quiet(): Promise<void> {
    while (this.under.size > 0) await Promise.all(this.under);
    if (this.failures.length > 0) throw this.failures[0];
  }

  async publish(one: Due, told: boolean): Promise<void> {
    await this.lag();
    this.write([{ op: "put", key: DUE.key(one), value: DUE.write(one) }]);
    await this.lag();
    if (!told) return;
    const lease = this.queue.lend?.(one);
    if (lease === undefined) return this.queue.add([one]);
    expect(this.held.has(lease.ordinal), `${lease.ordinal} was leased`).toBe(false);
    this.held.set(lease.ordinal, lease.token);
    this.leases.push(lease);
  }

  async claim(limit: number, per: number): Promise<readonly Lease[]> {
    const leases = await this.queue.claim({ limit, perSubscription: per, busy: new Map() });
    expect(leases.length).toBeLessThanOrEqual(limit);
    for (const lease of leases) {
      expect(this.ended.has(lease.ordinal), `${lease.ordinal} was done`).toBe(false);
      expect(this.held.has(lease.ordinal), `${lease.ordinal} was leased`).toBe(false);
      if (!this.early.has(lease.ordinal)) expect(lease.dueAt).toBeLessThanOrEqual(this.clock.now());
      expect(this.map.get(DUE.key(lease)), "the line is the stored one").toBe(DUE.write(lease));
      this.held.set(lease.ordinal, lease.token);
      this.leases.push(lease);
    }
    return leases;
  }

  /** Takes one of the leases off the list. */
  pick(n: number): Lease | undefined {
    return this.leases.length === 0 ? undefined : this.leases.splice(n % this.leases.length, 1)[0];
  }

  async settle(lease: Lease, next?: Due, how?: "next" | "keep", told = true): Promise<void> {
    const line = this.lines.get(lease.ordinal) ?? lease;
    const changes: Change[] = [{ op: "delete", key: DUE.key(line) }];
    if (next !== undefined) changes.push({ op: "put", key: DUE.key(next), value: DUE.write(next) });
    // From the commit on it may be claimed anew, or is over; before the settle resolves.
    const before = this.held.get(lease.ordinal);
    if (how !== "keep") this.held.delete(lease.ordinal);
    if (next === undefined) this.ended.add(lease.ordinal);
    try {
      await this.queue.settle(lease, changes, how === "keep" ? { keep: next } : told ? { next } : {});
      if (how === "keep" && next !== undefined) {
        this.lines.set(lease.ordinal, next);
        this.leases.push(lease);
      } else this.lines.delete(lease.ordinal);
    } catch (error) {
      expect(error).toBeInstanceOf(LeaseLostError);
      expect(this.cancelled.has(lease.subscriptionId) || before !== lease.token).toBe(true);
      if (next === undefined) this.ended.delete(lease.ordinal);
    }
  }

  async cancel(id: string): Promise<void> {
    // Whatever it leases out from now on is gone as well, until the cancel resolves.
    this.cancelled.add(id);
    await this.queue.cancel(id);
    for (const lease of this.leases.filter(({ subscriptionId }) => subscriptionId === id)) {
      if (this.held.get(lease.ordinal) !== lease.token) continue;
      this.held.delete(lease.ordinal);
      this.lines.delete(lease.ordinal);
    }
    this.leases.splice(0, this.leases.length, ...this.leases.filter(({ subscriptionId }) => subscriptionId !== id));
  }

  async run(one: Step): Promise<void> {
    const now = this.clock.now();
    switch (one.do) {
      case "publish":
        return this.start(this.publish(due(one.sub, ++this.made, now + one.in - 20), one.told));
      case "claim":
        // A cancel may pass a claim on its way; whose lease it is then, only the queue knows.
        await this.quiet();
        return this.start(this.claim(one.limit, one.per));
      case "end":
      case "retry":
      case "keep": {
        const lease = this.pick(one.pick);
        if (lease === undefined) return;
        const next =
          one.do === "end"
            ? undefined
            : due(lease.subscriptionId.slice(4), Number(lease.ordinal.slice(3)), now + one.in, { attempts: 1 });
        const how = one.do === "end" ? undefined : one.do === "keep" ? "keep" : "next";
        return this.start(this.settle(lease, next, how, one.do !== "retry" || one.told));
      }
      case "release": {
        const lease = this.pick(one.pick);
        if (lease === undefined) return;
        this.held.delete(lease.ordinal);
        this.lines.delete(lease.ordinal);
        this.early.add(lease.ordinal);
        return this.start(this.queue.release(lease, one.in === undefined ? undefined : now + one.in));
      }
      case "pause":
        return this.queue.pause(`sub_${one.sub}`, one.for);
      case "cancel":
        await this.quiet();
        return this.cancel(`sub_${one.sub}`);
      case "sweep":
        return this.start(this.queue.sweep());
      case "advance":
        return this.clock.advance(one.ms);
      case "turn":
        return turn();
    }
  }
}

describe("the in-process queue", () => {
  it("never gives a delivery twice, nor one that is done, and forgets none, on any walk", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 5, maxLength: 80 }),
        fc.array(fc.nat(3), { minLength: 1, maxLength: 7 }),
        fc.integer({ min: 2, max: 16 }),
        async (steps, delays, window) => {
          const walk = new Walk(delays, window);
          for (const one of steps) await walk.run(one);
          await walk.quiet();
          while (walk.leases.length > 0) await walk.settle(walk.pick(0) as Lease);
          await walk.clock.advance(1_000);
          for (let rounds = 0; walk.map.size > 0; rounds++) {
            expect(rounds, `left: ${JSON.stringify(walk.map.range(""))}`).toBeLessThan(100);
            await walk.queue.sweep();
            for (const lease of await walk.claim(512, 512)) await walk.settle(lease);
            walk.leases.length = 0;
          }
          // It searches for what it still supposes to be in storage.
          for (const _ of SUBS) expect(await walk.claim(1, 1)).toEqual([]);
          expect(await walk.queue.depth()).toEqual({ waiting: 0, leased: 0, oldestDueAt: undefined });
          await walk.queue.close();
        },
      ),
      { numRuns: 1_500 },
    );
  });

  it("finds everything that was added to it by itself, whatever its window has room for", async () => {
    const told = step.filter((one) => one.do !== "sweep" && one.do !== "cancel");
    await fc.assert(
      fc.asyncProperty(
        fc.array(told, { minLength: 5, maxLength: 80 }),
        fc.array(fc.nat(3), { minLength: 1, maxLength: 7 }),
        fc.integer({ min: 2, max: 16 }),
        async (steps, delays, window) => {
          const walk = new Walk(delays, window);
          for (const one of steps) await walk.run("told" in one ? { ...one, told: true } : one);
          await walk.quiet();
          while (walk.leases.length > 0) await walk.settle(walk.pick(0) as Lease);
          await walk.clock.advance(1_000);
          for (let rounds = 0; walk.map.size > 0; rounds++) {
            expect(rounds, `left: ${JSON.stringify(walk.map.range(""))}`).toBeLessThan(300);
            for (const lease of await walk.claim(512, 512)) await walk.settle(lease);
            walk.leases.length = 0;
          }
          await walk.queue.close();
        },
      ),
      { numRuns: 1_500 },
    );
  });

  it("keeps a delivery that was given back for later until then, although its window had no room for it meanwhile", async () => {
    const walk = new Walk([1], 8);
    const { queue, clock } = walk;
    for (let n = 0; n < 6; n++) await walk.publish(due("a", n, clock.now()), true);
    const given: Lease[] = [];
    while (given.length < 6) given.push(...(await queue.claim({ limit: 6, perSubscription: 6, busy: new Map() })));
    for (const lease of given) await queue.release(lease, clock.now() + 5_000);
    // Those of others take the room, and leave it.
    for (let n = 10; n < 40; n++) await walk.publish(due("b", n, clock.now()), true);
    for (let left = 30; left > 0;) {
      const leases = await queue.claim({ limit: 4, perSubscription: 4, busy: new Map() });
      expect(leases.filter(({ subscriptionId }) => subscriptionId === "sub_a")).toEqual([]);
      for (const lease of leases) await queue.settle(lease, [{ op: "delete", key: DUE.key(lease) }]);
      left -= leases.length;
    }
    const early: string[] = [];
    for (let second = 0; second < 4; second++) {
      await clock.advance(1_000);
      early.push(
        ...(await queue.claim({ limit: 9, perSubscription: 9, busy: new Map() })).map(({ ordinal }) => ordinal),
      );
    }
    expect(early).toEqual([]);
    await clock.advance(1_500);
    let found = 0;
    for (let round = 0; round < 6; round++) {
      for (const lease of await queue.claim({ limit: 9, perSubscription: 9, busy: new Map() })) {
        await queue.settle(lease, [{ op: "delete", key: DUE.key(lease) }]);
        found++;
      }
    }
    expect(found).toBe(6);
    await queue.close();
  });
});
