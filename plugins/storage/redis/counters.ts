/** Keeps the limiter's windows on Redis: one decision over all nodes, by the server's clock. Suspensions outlive every node. */
import type { WindowResult } from "../../../core/model/windows.ts";
import type { Counters } from "../../../core/ports/storage.ts";
import { countedIn, numbersOf, resultOf } from "../shared/window-rows.ts";
import type { Calls } from "./calls.ts";
import { CALLERS, GIVE_BACK, TAKE } from "./limiter-lua.ts";
import type { Now } from "./time-argument.ts";

/** @param most callers that are held */
export function sharedCounters(calls: Pick<Calls, "run">, now: Now, most = CALLERS): Counters {
  return {
    async take(takes) {
      const args = [now(), most, ...takes.flatMap((take) => [take.key, ...numbersOf(take)])];
      const rows = (await calls.run(TAKE, args, { repeatable: false })) as number[][];
      return rows.map(resultOf);
    },
    async giveBack(takes, given) {
      const args = takes.flatMap((take, i) => [take.key, ...countedIn(take, given[i] as WindowResult)]);
      await calls.run(GIVE_BACK, [now(), ...args], { repeatable: false });
    },
  };
}
