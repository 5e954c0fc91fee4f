/**
 * A world in which nothing happens by itself: one list of what is to happen when, one seed, and processes that can be
 * killed, frozen and given a wrong clock. The same seed makes the same world, step by step.
 */
import { createRequire, syncBuiltinESMExports } from "node:module";
import type { Clock } from "../../core/ports/clock.ts";
import { turn } from "../support/clock.ts";

export interface Random {
  /** In [0, 1). */
  next(): number;
  /** A whole number in [from, to]. */
  int(from: number, to: number): number;
  chance(share: number): boolean;
  pick<T>(list: readonly T[]): T;
}

/** sfc32, by Chris Doty-Humphrey (PractRand). */
export function random(seed: number): Random {
  let [a, b, c, d] = [0x9e3779b9, 0x243f6a88, 0xb7e15162, seed | 0];
  const next = (): number => {
    const sum = (a + b + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    return (sum >>> 0) / 0x1_0000_0000;
  };
  for (let i = 0; i < 16; i++) next();
  return {
    next,
    int: (from, to) => from + Math.floor(next() * (to - from + 1)),
    chance: (share) => next() < share,
    pick: <T>(list: readonly T[]) => list[Math.floor(next() * list.length)] as T,
  };
}

const crypto = createRequire(import.meta.url)("node:crypto") as { randomBytes: (size: number) => Buffer };

/** Runs `work` with every source of chance drawn from the seed: ids, secrets and nonces too. */
export async function seeded<T>(seed: number, work: () => Promise<T>): Promise<T> {
  const own = random(seed ^ 0x5f3759df);
  const before = { random: Math.random, randomBytes: crypto.randomBytes };
  Math.random = own.next;
  crypto.randomBytes = (size) => {
    const bytes = Buffer.allocUnsafe(size);
    for (let i = 0; i < size; i++) bytes[i] = own.int(0, 255);
    return bytes;
  };
  syncBuiltinESMExports();
  try {
    return await work();
  } finally {
    Math.random = before.random;
    crypto.randomBytes = before.randomBytes;
    syncBuiltinESMExports();
  }
}

/** A process: what is to happen in it does not happen any more when it is dead, and later when it is frozen. */
export interface Life {
  readonly name: string;
  readonly clock: Clock;
  alive(): boolean;
  kill(): void;
  /** Ms of the world; infinity while it lives. */
  diedAt(): number;
  /** SIGSTOP until that time of the world. */
  freeze(untilMs: number): void;
  frozenUntil(): number;
  /** Steps the wall clock of this process. */
  step(ms: number): void;
  after(ms: number, act: () => void): () => void;
}

export interface World {
  readonly random: Random;
  /** Ms since the world began. */
  now(): number;
  after(ms: number, act: () => void): () => void;
  sleep(ms: number): Promise<void>;
  /** Time stands still until this is over: something real. It must not reject. */
  hold(work: Promise<void>): void;
  life(name: string, skewMs: number): Life;
  /** Runs until that time, or until `done` holds after a step. */
  run(untilMs: number, done?: () => boolean): Promise<void>;
  /** Notes what happened, for people who look into a failure; kept only when asked for. */
  say(text: string): void;
  readonly story: readonly string[];
}

interface Event {
  at: number;
  readonly order: number;
  readonly life: Life | undefined;
  act: (() => void) | undefined;
}

/** Epoch ms at which every world begins. */
export const GENESIS = 1_767_225_600_000;
/** Real timers hold no longer than this and look again: so do these, which is how a stepped clock is met. */
const LONGEST_MS = 60_000;

/** All that one step leads to is done within so many turns. */
const TURNS = 3;

export function world(seed: number, telling = false): World {
  const events: Event[] = [];
  const story: string[] = [];
  const held = new Set<Promise<void>>();
  let now = 0;
  let order = 0;

  const before = (a: Event, b: Event): boolean => a.at < b.at || (a.at === b.at && a.order < b.order);

  function push(event: Event): void {
    let i = events.push(event) - 1;
    for (let up = (i - 1) >> 1; i > 0 && before(event, events[up] as Event); i = up, up = (i - 1) >> 1) {
      events[i] = events[up] as Event;
      events[up] = event;
    }
  }

  function pop(): Event {
    const first = events[0] as Event;
    const last = events.pop() as Event;
    if (events.length === 0) return first;
    let i = 0;
    for (;;) {
      let low = 2 * i + 1;
      if (low >= events.length) break;
      if (low + 1 < events.length && before(events[low + 1] as Event, events[low] as Event)) low++;
      if (!before(events[low] as Event, last)) break;
      events[i] = events[low] as Event;
      i = low;
    }
    events[i] = last;
    return first;
  }

  function add(ms: number, act: () => void, life: Life | undefined): () => void {
    const event: Event = { at: now + Math.max(0, ms), order: order++, life, act };
    push(event);
    return () => {
      event.act = undefined;
    };
  }

  function makeLife(name: string, skewMs: number): Life {
    let diedAt = Number.POSITIVE_INFINITY;
    let frozen = 0;
    let offset = GENESIS + skewMs;
    const life: Life = {
      name,
      alive: () => diedAt === Number.POSITIVE_INFINITY,
      kill: () => void (diedAt = Math.min(diedAt, now)),
      diedAt: () => diedAt,
      freeze: (untilMs) => void (frozen = Math.max(frozen, untilMs)),
      frozenUntil: () => frozen,
      step: (ms) => void (offset += ms),
      after: (ms, act) => add(ms, act, life),
      clock: {
        now: () => Math.floor(offset + now),
        monotonic: () => now,
        sleep: (until, signal) =>
          new Promise<void>((resolve, reject) => {
            if (signal?.aborted) return reject(signal.reason as Error);
            let stop = (): void => {};
            const abort = (): void => {
              stop();
              reject(signal?.reason as Error);
            };
            const ends = now + until - Math.floor(offset + now);
            const look = (): void => {
              const left = ends - now;
              if (left > 0) {
                stop = life.after(Math.min(left, LONGEST_MS), look);
                return;
              }
              signal?.removeEventListener("abort", abort);
              resolve();
            };
            signal?.addEventListener("abort", abort, { once: true });
            look();
          }),
      },
    };
    return life;
  }

  return {
    random: random(seed),
    story,
    now: () => now,
    after: (ms, act) => add(ms, act, undefined),
    sleep: (ms) => new Promise((resolve) => void add(ms, resolve, undefined)),
    hold(work) {
      held.add(work);
      void work.finally(() => held.delete(work));
    },
    life: makeLife,
    say: (text) => void (telling && story.push(`${(now / 1_000).toFixed(3).padStart(10)}  ${text}`)),
    async run(untilMs, done) {
      await turn();
      while (events.length > 0 && (events[0] as Event).at <= untilMs && done?.() !== true) {
        const event = pop();
        const { life, act } = event;
        if (act === undefined || life?.alive() === false) continue;
        now = Math.max(now, event.at);
        if (life !== undefined && life.frozenUntil() > now) {
          // Its events of the meantime happen at the thaw, in the same order.
          push(Object.assign(event, { at: life.frozenUntil() }));
          continue;
        }
        act();
        await turn();
        while (held.size > 0) {
          // Work that was begun before is done first: how long the real work takes must decide nothing.
          for (let i = 0; i < TURNS; i++) await turn();
          await Promise.all(held);
          await turn();
        }
      }
      if (done?.() !== true) now = Math.max(now, untilMs);
    },
  };
}
