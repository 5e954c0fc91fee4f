/** Laws of the clock: waits are lengths, and a stored time is never believed beyond what could have been asked for. */
import { expect } from "vitest";
import type { Due } from "../../core/model/delivery.ts";
import { ordinalFloor } from "../../core/model/ids.ts";
import { DUE } from "../../core/model/schema.ts";
import type { Lease, Storage } from "../../core/ports/storage.ts";
import { claim, due, enqueue, lineOf } from "./queue.ts";
import type { Bench } from "./storage.ts";

const SECOND = 1_000;
const HOUR = 3_600_000;
const STEPS = [90 * SECOND, -90 * SECOND, HOUR, -HOUR, 24 * HOUR, -24 * HOUR];
/** How late what is due may be found, ms. */
const SLACK = 5 * SECOND;
/** More lines of one subscription than a window of ten thousand has room for. */
const MANY = 4_000;

/** The line of an event that was accepted then and never tried. */
const untried = (sub: string, n: number, acceptedAt: number): Due =>
  due(sub, n, acceptedAt, { ordinal: ordinalFloor(acceptedAt).slice(0, -6) + String(n).padStart(6, "0") });

/** The line of a delivery that was tried at `triedAt` and then waits. */
const retry = (sub: string, n: number, triedAt: number, waitMs: number): Due =>
  due(sub, n, triedAt + waitMs, { attempts: 1, waitMs });

const written = (ms: number): string => `${ms < 0 ? "back" : "forwards"} by ${Math.abs(ms) / SECOND} s`;
const keys = (dues: readonly Due[]): readonly string[] => dues.map((due) => DUE.key(due)).toSorted();

export function clockLaws({ open, reopen, law, harness }: Bench): void {
  const { clock } = harness;
  const step = (ms: number): Promise<void> => (clock.step as NonNullable<typeof clock.step>)(ms);

  /**
   * Returns the claims of a worker while so much time passes. If that is fewer than `count`, time stands still until what goes on in
   * the background has found them.
   */
  async function claimed({ queue }: Storage, count: number, ms: number): Promise<readonly Lease[]> {
    const leases: Lease[] = [];
    const look = async (): Promise<void> =>
      void leases.push(...(await claim(queue, { limit: 1_000, perSubscription: 100_000 })));
    await look();
    for (let left = ms; left > 0; left -= SECOND) {
      await clock.advance(Math.min(left, SECOND));
      await look();
    }
    const ends = performance.now() + 10_000;
    while (leases.length < count && performance.now() < ends) {
      await queue.wake(AbortSignal.timeout(20));
      await look();
    }
    return leases;
  }

  /** As a relay does that starts again, or that goes on. */
  async function goOn(storage: Storage, restart: boolean): Promise<Storage> {
    if (!restart) return storage;
    const again = await reopen(storage);
    await again.queue.sweep();
    return again;
  }

  for (const ms of STEPS)
    for (const restart of [false, true]) {
      const then = `${written(ms)}${restart ? ", with a restart" : ""}`;
      const needs = restart ? (["step", "reopen"] as const) : (["step"] as const);

      law(
        `what was never tried is due at once when the clock is set ${then}`,
        async () => {
          let storage = await open();
          const dues = [1, 2, 3].map((n) => untried("a", n, clock.now()));
          await enqueue(storage, ...dues);
          await step(ms);
          storage = await goOn(storage, restart);
          const fresh = untried("a", 4, clock.now());
          await enqueue(storage, fresh);
          expect(keys(await claimed(storage, 4, SLACK))).toEqual(keys([...dues, fresh]));
        },
        ...needs,
      );

      law(
        `a retry waits no longer than its wait when the clock is set ${then}`,
        async () => {
          let storage = await open();
          const dues = [20, 40].map((seconds, n) => retry("a", n, clock.now(), seconds * SECOND));
          await enqueue(storage, ...dues);
          await step(ms);
          storage = await goOn(storage, restart);
          // The time of a clock after a restart may be true: time has passed then.
          if (!restart || ms < 0) expect(await claimed(storage, 0, 19 * SECOND)).toEqual([]);
          const first = await claimed(storage, 1, SECOND + SLACK);
          if (!restart || ms < 0) expect(keys(first)).toEqual(keys(dues.slice(0, 1)));
          const rest = await claimed(storage, 2 - first.length, 20 * SECOND);
          expect(keys([...first, ...rest])).toEqual(keys(dues));
        },
        ...needs,
      );

      if (ms < 0)
        law(
          `what was never tried is found behind thousands of waiting retries when the clock is set ${then}`,
          async () => {
            let storage = await open();
            const waiting = Array.from({ length: MANY }, (_, n) => retry("a", n, clock.now(), 30 * SECOND));
            const dues = [untried("a", MANY, clock.now() + 40 * SECOND), untried("a", MANY + 1, clock.now() + 41_000)];
            for (let i = 0; i < MANY; i += 1_000) await storage.commit(waiting.slice(i, i + 1_000).map(lineOf));
            await storage.commit(dues.map(lineOf));
            // They were written by a clock that was fast.
            await step(ms);
            storage = await goOn(storage, restart);
            if (!restart) await storage.queue.sweep();
            expect(keys(await claimed(storage, 2, SLACK))).toEqual(keys(dues));
            expect(keys(await claimed(storage, MANY, 25 * SECOND + SLACK))).toEqual(keys(waiting));
          },
          ...needs,
          "slow",
        );

      if (!restart)
        law(
          `a pause and a rest last as long as they were given when the clock is set ${then}`,
          async () => {
            const storage = await open();
            await enqueue(storage, untried("b", 1, clock.now()));
            const [lease] = await claimed(storage, 1, 0);
            await storage.queue.release(lease as Lease, clock.now() + 30 * SECOND);
            await storage.queue.pause("sub_a", 30 * SECOND);
            await enqueue(storage, untried("a", 1, clock.now()));
            await step(ms);
            expect(await claimed(storage, 0, 29 * SECOND)).toEqual([]);
            expect(await claimed(storage, 2, SECOND + SLACK)).toHaveLength(2);
          },
          ...needs,
        );
    }

  law("a stored retry waits no longer than it says, however far ahead its time is", async () => {
    const storage = await open();
    const dues = [0, 10].map((seconds, n) => retry("a", n, clock.now() + 24 * HOUR, seconds * SECOND));
    await storage.commit(dues.map(lineOf));
    await storage.queue.sweep();
    expect(keys(await claimed(storage, 1, SLACK))).toEqual(keys(dues.slice(0, 1)));
    expect(keys(await claimed(storage, 1, 10 * SECOND))).toEqual(keys(dues.slice(1)));
  });

  law(
    "a clock that was a day ahead for a moment delays neither what came then nor what comes after",
    async () => {
      let storage = await open();
      await step(24 * HOUR);
      const early = [untried("a", 1, clock.now()), retry("a", 2, clock.now(), 10 * SECOND)];
      await enqueue(storage, ...early);
      await step(-24 * HOUR);
      storage = await goOn(storage, true);
      const late = [untried("a", 3, clock.now()), retry("b", 4, clock.now(), 10 * SECOND)];
      await enqueue(storage, ...late);
      expect(keys(await claimed(storage, 2, SLACK))).toEqual(keys([early[0] as Due, late[0] as Due]));
      expect(keys(await claimed(storage, 2, 10 * SECOND))).toEqual(keys([early[1] as Due, late[1] as Due]));
    },
    "step",
    "reopen",
  );
}
