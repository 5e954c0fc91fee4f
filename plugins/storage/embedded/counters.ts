/** Keeps the limiter's windows of one node in memory. They end with the process; stored suspensions are restored. */
import {
  decide,
  type Decision,
  giveBack,
  readWindow,
  type Take,
  type WindowCount,
  type WindowResult,
} from "../../../core/model/windows.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Counters } from "../../../core/ports/storage.ts";

interface CounterOptions {
  /** How many (endpoint, principal) pairs are held. @default 100_000 */
  readonly capacity?: number;
}

interface Held {
  tally: WindowCount;
  /** The last take on it, which tells how long its windows are and for how long strikes count. */
  readonly take: Take | undefined;
}

/** The shared entry for new callers while all held entries are full or suspended, so that memory stays bounded. */
const SHARED = "\u0000crowd";
/** A sweep that found nothing to drop is not repeated sooner, because it reads all entries. */
const SWEEP_AGAIN_MS = 1_000;

export function createCounters(clock: Pick<Clock, "monotonic">, options: CounterOptions = {}): Counters {
  const { capacity = 100_000 } = options;
  const held = new Map<string, Held>();
  let sweptInVainAt = Number.NEGATIVE_INFINITY;

  /** Drops idle pairs; then, oldest first, those that are neither full nor suspended, until there is some room. */
  function sweep(now: number): void {
    if (now - sweptInVainAt < SWEEP_AGAIN_MS) return;
    const room = Math.max(1, Math.floor(capacity / 20));
    for (const [key, one] of held) if (key !== SHARED && isIdle(one, now)) held.delete(key);
    for (const [key, one] of held) {
      if (held.size <= capacity - room) return;
      if (key !== SHARED && !isBound(one, now)) held.delete(key);
    }
    if (held.size >= capacity) sweptInVainAt = now;
  }

  /** Returns the key that a take is counted under: its own, or the shared one when there is no room. */
  function place(key: string, now: number): string {
    if (held.size < capacity || held.has(key)) return key;
    sweep(now);
    return held.size < capacity ? key : SHARED;
  }

  /** The shared entry is never suspended: one caller's abuse would suspend all the others. */
  const decideAt = (key: string, take: Take, now: number): Decision =>
    decide(held.get(key)?.tally, key === SHARED ? { ...take, abuse: undefined } : take, now);

  function takeOne(take: Take, now: number): WindowResult {
    const key = place(take.key, now);
    const { tally, taken } = decideAt(key, take, now);
    held.set(key, { tally, take });
    return taken;
  }

  return {
    take(takes) {
      const now = clock.monotonic();
      if (takes.length === 1) return [takeOne(takes[0] as Take, now)];
      const keys = takes.map((take) => place(take.key, now));
      const decisions = takes.map((take, i) => decideAt(keys[i] as string, take, now));
      const anyRefused = decisions.some(({ taken }) => taken.code !== undefined);
      return decisions.map(({ tally, taken }, i) => {
        const [key, take] = [keys[i] as string, takes[i] as Take];
        // A take that would have passed alone is not counted when another take was refused.
        if (anyRefused && taken.code === undefined) return readWindow(held.get(key)?.tally, take, now);
        held.set(key, { tally, take });
        return taken;
      });
    },
    giveBack(takes, taken) {
      const now = clock.monotonic();
      for (const [i, take] of takes.entries()) {
        const one = held.get(held.has(take.key) ? take.key : SHARED);
        if (one !== undefined) one.tally = giveBack(one.tally, take, taken[i] as WindowResult, now);
      }
    },
    restore(key, { strikes, leftMs, ageMs }) {
      const now = clock.monotonic();
      const windows = { sustainedStart: now, sustainedCount: 0, burstStart: now, burstCount: 0 };
      const refusals = { refusedStart: now, refusedCount: 0 };
      const tally = { ...windows, ...refusals, suspendedUntil: now + leftMs, strikes, struckAt: now - ageMs };
      held.set(key, { tally, take: undefined });
    },
  };
}

/** True when dropping it forgets nothing. */
function isIdle({ tally, take }: Held, now: number): boolean {
  if (take === undefined) return now >= tally.suspendedUntil && tally.strikes === 0;
  const { sustained, burst, abuse } = take;
  return (
    (tally.sustainedCount === 0 || now >= tally.sustainedStart + sustained.windowMs) &&
    (tally.burstCount === 0 || now >= tally.burstStart + burst.windowMs) &&
    (tally.refusedCount === 0 || abuse === undefined || now >= tally.refusedStart + abuse.windowMs) &&
    now >= tally.suspendedUntil &&
    (tally.strikes === 0 || abuse === undefined || now >= tally.struckAt + abuse.forgetMs)
  );
}

/** True when dropping it would let a caller pass that must be refused. */
function isBound({ tally, take }: Held, now: number): boolean {
  if (now < tally.suspendedUntil) return true;
  if (take === undefined) return false;
  const { sustained, burst } = readWindow(tally, take, now);
  return sustained.remaining <= 0 || burst.remaining <= 0;
}
