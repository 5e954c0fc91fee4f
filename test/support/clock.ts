/** The clock that tests move by hand, as the conformance suites export it. */
import type { Clock } from "../../core/ports/clock.ts";
import { systemClock } from "../../core/runtime/clock.ts";

export { testClock, turn } from "../conformance/clock.ts";
export type { TestClock } from "../conformance/clock.ts";

/** The clock for a storage with a disk, which takes real time: what waits a few ms for company there really does. */
export const besideDisk = (clock: Clock): Clock => ({
  ...clock,
  sleep: (until, signal) => {
    const ms = until - clock.now();
    if (ms > 5) return clock.sleep(until, signal);
    const real = systemClock();
    return real.sleep(real.now() + ms, signal);
  },
});
