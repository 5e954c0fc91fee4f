/** A clock that tests move by hand: no test sleeps, and every wait ends at a known time. */
import type { Clock } from "../../core/ports/clock.ts";

export interface TestClock extends Clock {
  /**
   * Moves time on by `ms`, stopping at each sleeper on the way, oldest first, and letting what it wakes run (timers of
   * the event loop's own turn, not real time) before time goes on. Sleeps that begin on the way count too.
   */
  advance(ms: number): Promise<void>;
  /** Sets the wall clock alone, as an operator or NTP would. `monotonic` stays, and what was left of each sleep. */
  step(ms: number): Promise<void>;
  /** Wall-clock times that someone sleeps for, soonest first. */
  sleeping(): readonly number[];
  /** Resolves once at least `count` sleepers wait. */
  whenSleeping(count?: number): Promise<void>;
}

interface Sleeper {
  until: number;
  readonly order: number;
  readonly wake: () => void;
}

/** @param start epoch ms. @default 2026-01-01T00:00:00Z */
export function testClock(start = 1_767_225_600_000): TestClock {
  let wall = start;
  let mono = 1_000;
  let order = 0;
  const sleepers: Sleeper[] = [];
  const waiting: { readonly count: number; readonly tell: () => void }[] = [];

  const sort = (): void => {
    sleepers.sort((a, b) => a.until - b.until || a.order - b.order);
  };

  async function wakeDue(): Promise<void> {
    for (let first = sleepers[0]; first !== undefined && first.until <= wall; first = sleepers[0]) {
      sleepers.shift();
      first.wake();
      await turn();
    }
  }

  async function move(to: number, moved: (ms: number) => void): Promise<void> {
    await turn();
    for (let first = sleepers[0]; first !== undefined && first.until <= to; first = sleepers[0]) {
      moved(Math.max(0, first.until - wall));
      wall = Math.max(wall, first.until);
      await wakeDue();
    }
    moved(to - wall);
    wall = to;
    await turn();
  }

  return {
    now: () => wall,
    monotonic: () => mono,
    sleep(until, signal) {
      return new Promise<void>((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason as Error);
        if (until <= wall) return resolve();
        const abort = (): void => {
          const at = sleepers.indexOf(sleeper);
          if (at >= 0) sleepers.splice(at, 1);
          reject(signal?.reason as Error);
        };
        const sleeper: Sleeper = {
          until,
          order: order++,
          wake: () => {
            signal?.removeEventListener("abort", abort);
            resolve();
          },
        };
        signal?.addEventListener("abort", abort, { once: true });
        sleepers.push(sleeper);
        sort();
        for (const one of waiting.filter(({ count }) => sleepers.length >= count)) {
          waiting.splice(waiting.indexOf(one), 1);
          one.tell();
        }
      });
    },
    advance: (ms) =>
      move(wall + ms, (passed) => {
        mono += passed;
      }),
    step: async (ms) => {
      wall += ms;
      for (const sleeper of sleepers) sleeper.until += ms;
      await turn();
    },
    sleeping: () => sleepers.map(({ until }) => until),
    whenSleeping: (count = 1) =>
      sleepers.length >= count ? Promise.resolve() : new Promise((tell) => void waiting.push({ count, tell })),
  };
}

/** Lets everything run that is ready now: two turns of the event loop. */
export async function turn(): Promise<void> {
  await new Promise((resolve) => void setImmediate(resolve));
  await new Promise((resolve) => void setImmediate(resolve));
}
