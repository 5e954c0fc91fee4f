/** Laws of the clock: waits are lengths, and a stored time is never believed beyond what could have been asked for. */
import { expect } from "vitest";
import type { Due } from "../../core/model/delivery.ts";
import { ordinalFloor } from "../../core/model/ids.ts";
import { dueKey } from "../../core/model/keys.ts";
import type { Lease, Queue, Storage } from "../../core/ports/storage.ts";
import { claim, due, endOf, enqueue, lineOf } from "./queue.ts";
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
const keys = (dues: readonly Due[]): readonly string[] => dues.map(dueKey).toSorted();

/** What a worker gets within so many ms of the clock; it waits as workers do, and never with the clock. */
async function claimed(queue: Queue, count: number, more: { readonly limit?: number } = {}): Promise<readonly Lease[]> {
  const leases: Lease[] = [];
  const ends = performance.now() + 10_000;
  while (leases.length < count && performance.now() < ends) {
    leases.push(...(await claim(queue, { limit: 1_000, perSubscription: 1_000, ...more })));
    if (leases.length < count) await queue.wake(AbortSignal.timeout(20));
  }
  return leases;
}

export function clockLaws({ open, reopen, law, harness }: Bench): void {
  const { clock } = harness;
  const step = (ms: number): Promise<void> => (clock.step as NonNullable<typeof clock.step>)(ms);

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
          await clock.advance(SLACK);
          expect(keys(await claimed(storage.queue, 4))).toEqual(keys([...dues, fresh]));
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
          await clock.advance(20 * SECOND);
          const first = await claimed(storage.queue, 1);
          await clock.advance(20 * SECOND + SLACK);
          const rest = first.length === 2 ? [] : await claimed(storage.queue, 1);
          expect(keys([...first, ...rest])).toEqual(keys(dues));
          // What a clock says after a restart may be true: time has passed then.
          if (!restart || ms < 0) expect(keys(first)).toEqual(keys(dues.slice(0, 1)));
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
            await clock.advance(SLACK);
            expect(keys(await claimed(storage.queue, 2))).toEqual(keys(dues));
            await clock.advance(25 * SECOND);
            const seen: Lease[] = [];
            while (seen.length < MANY) {
              const leases = await claimed(storage.queue, 1, { limit: 500 });
              if (leases.length === 0) break;
              await Promise.all(leases.map((lease) => storage.queue.settle(lease, [endOf(lease)])));
              seen.push(...leases);
            }
            expect(keys(seen)).toEqual(keys(waiting));
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
            const [lease] = await claimed(storage.queue, 1);
            await storage.queue.release(lease as Lease, clock.now() + 30 * SECOND);
            await storage.queue.pause("sub_a", 30 * SECOND);
            await enqueue(storage, untried("a", 1, clock.now()));
            await step(ms);
            await clock.advance(29 * SECOND);
            expect(await claim(storage.queue)).toEqual([]);
            await clock.advance(SLACK);
            expect(await claimed(storage.queue, 2)).toHaveLength(2);
          },
          ...needs,
        );
    }

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
      await clock.advance(SLACK);
      expect(keys(await claimed(storage.queue, 2))).toEqual(keys([early[0] as Due, late[0] as Due]));
      await clock.advance(10 * SECOND);
      expect(keys(await claimed(storage.queue, 2))).toEqual(keys([early[1] as Due, late[1] as Due]));
    },
    "step",
    "reopen",
  );
}
