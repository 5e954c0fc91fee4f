/** The limiter's takes and results as the plain numbers that a server gets and returns. */
import type { LimitCode, Take, WindowResult, WindowState } from "../../../core/model/windows.ts";

const CODES: readonly (LimitCode | undefined)[] = [undefined, "ABUSE_SUSPEND", "RATE_LIMIT_EXCEEDED", "BURST_EXCEEDED"];

/** Nine numbers: sustained limit and ms, burst limit and ms, refusals (0: none), window, suspend, most, forget. */
export function numbersOf({ sustained, burst, abuse }: Take): readonly number[] {
  const windows = [sustained.limit, sustained.windowMs, burst.limit, burst.windowMs];
  if (abuse === undefined) return [...windows, 0, 0, 0, 0, 0];
  return [...windows, abuse.refusals, abuse.windowMs, abuse.suspendMs, abuse.maxSuspendMs, abuse.forgetMs];
}

/** Four numbers: the length and the start of both windows in which it was counted; -1 where none is open. */
export const countedIn = ({ sustained, burst }: Take, was: WindowResult): readonly number[] => [
  ...[sustained.windowMs, was.sustained.startedAt ?? -1],
  ...[burst.windowMs, was.burst.startedAt ?? -1],
];

/** @param row code, then remaining, reset and start of both windows, wait, strikes, for */
export function resultOf(row: readonly number[]): WindowResult {
  const [code = 0] = row;
  const [waitMs = 0, strikes = 0, forMs = 0] = row.slice(7);
  return {
    ...(code === 0 ? {} : { code: CODES[code] }),
    sustained: windowState(row.slice(1, 4)),
    burst: windowState(row.slice(4, 7)),
    waitMs,
    ...(strikes === 0 ? {} : { suspended: { strikes, forMs } }),
  };
}

const windowState = ([remaining = 0, resetMs = 0, startedAt = -1]: readonly number[]): WindowState => ({
  remaining,
  resetMs,
  ...(startedAt < 0 ? {} : { startedAt }),
});
