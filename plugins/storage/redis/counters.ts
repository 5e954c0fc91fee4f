/** Keeps the limiter's windows on Redis: one decision over all nodes, by the server's clock. Suspensions outlive every node. */
import type { LimitCode, Take, WindowResult, WindowState } from "../../../core/model/windows.ts";
import type { Counters } from "../../../core/ports/storage.ts";
import type { Calls } from "./calls.ts";
import { CALLERS, GIVE_BACK, TAKE } from "./limiter-lua.ts";
import type { Now } from "./time-argument.ts";

const CODES: readonly (LimitCode | undefined)[] = [undefined, "ABUSE_SUSPEND", "RATE_LIMIT_EXCEEDED", "BURST_EXCEEDED"];

/** @param most callers that are held */
export function sharedCounters(calls: Pick<Calls, "run">, now: Now, most = CALLERS): Counters {
  return {
    async take(takes) {
      const args = [now(), most, ...takes.flatMap(flatten)];
      const rows = (await calls.run(TAKE, args, { repeatable: false })) as number[][];
      return rows.map(taken);
    },
    async giveBack(takes, given) {
      const args = takes.flatMap(({ key, sustained, burst }, i) => {
        const was = given[i] as WindowResult;
        return [key, sustained.windowMs, was.sustained.startedAt ?? -1, burst.windowMs, was.burst.startedAt ?? -1];
      });
      await calls.run(GIVE_BACK, [now(), ...args], { repeatable: false });
    },
  };
}

function flatten({ key, sustained, burst, abuse }: Take): readonly (string | number)[] {
  const windows = [key, sustained.limit, sustained.windowMs, burst.limit, burst.windowMs];
  if (abuse === undefined) return [...windows, 0, 0, 0, 0, 0];
  return [...windows, abuse.refusals, abuse.windowMs, abuse.suspendMs, abuse.maxSuspendMs, abuse.forgetMs];
}

function taken(row: readonly number[]): WindowResult {
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
