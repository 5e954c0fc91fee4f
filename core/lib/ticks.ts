/** Finds the ticks of a cron schedule by the wall clock, a minute apart at most, so that a step holds up none. */
import type { Sleeper } from "./within.ts";

interface TickSchedule {
  /** A cron expression of five fields, or of six with seconds first. */
  readonly expression: string;
  /** Returns whether the expression names this second. */
  readonly matches: (at: Date) => boolean;
}

/** How many values each field has, from the seconds to the days of a week. */
const VALUES = [60, 60, 24, 31, 12, 7];

/**
 * Returns whether each step of a cron expression fits its field. A longer one, as in a `*` with `/70` for minutes, is valid to
 * node-cron, and means the first value of the field alone.
 */
export function stepsFit(expression: string): boolean {
  const fields = expression.trim().split(/\s+/);
  const values = VALUES.slice(-fields.length);
  return fields.every((field, i) =>
    [...field.matchAll(/\/(\d+)/g)].every(([, step]) => Number(step) <= (values[i] ?? 0)),
  );
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
/** How late a tick may still run, ms: a busy minute must not skip a nightly job. */
const TOLERANCE_MS = 55_000;

/**
 * Calls `tick` with the time of each tick from now on. Ticks that a clock set forwards has passed are left out; those that
 * come again because it was set back are reported again. Resolves when the signal aborts; never rejects.
 */
export async function tellTicks(
  clock: Sleeper,
  { expression, matches }: TickSchedule,
  signal: AbortSignal,
  tick: (at: Date) => void,
): Promise<void> {
  const step = expression.trim().split(/\s+/).length === 6 ? SECOND_MS : MINUTE_MS;
  const stepOf = (at: number): number => Math.floor(at / step) * step;
  /** Everything up to this time has been checked. */
  let seen = stepOf(clock.now());
  for (;;) {
    try {
      await clock.sleep(stepOf(clock.now()) + step, signal);
    } catch {
      return;
    }
    const now = clock.now();
    const last = stepOf(now);
    if (now < seen - TOLERANCE_MS) seen = last;
    for (let at = Math.max(seen, stepOf(now - TOLERANCE_MS - 1)) + step; at <= last; at += step)
      if (matches(new Date(at))) tick(new Date(at));
    seen = Math.max(seen, last);
  }
}
