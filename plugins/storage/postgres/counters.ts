/** Keeps the limiter's windows: one decision over all nodes, by the server's clock. Suspensions outlive every node. */
import type { Take, WindowResult } from "../../../core/model/windows.ts";
import type { Counters } from "../../../core/ports/storage.ts";
import { countedIn, numbersOf, resultOf } from "../shared/window-rows.ts";
import { longs, texts } from "./arrays.ts";
import type { Link } from "./link.ts";
import type { TimeArgument } from "./time-argument.ts";

export function sharedCounters(link: Link, schema: string, time: TimeArgument): Counters {
  const call = (name: string, takes: readonly Take[], numbers: readonly number[]) => {
    const keys = texts(takes.map(({ key }) => key));
    const values = (): readonly unknown[] => [...time.now(), keys, longs(numbers)];
    return link.run({ name, text: `select "${schema}".${name}($1,$2,$3,$4)`, values }, { repeatable: false });
  };
  return {
    async take(takes) {
      const [row] = await call("take", takes, takes.flatMap(numbersOf));
      return (JSON.parse(row?.[0] ?? "[]") as number[][]).map(resultOf);
    },
    async giveBack(takes, given) {
      await call(
        "give_back",
        takes,
        takes.flatMap((take, i) => countedIn(take, given[i] as WindowResult)),
      );
    },
  };
}
