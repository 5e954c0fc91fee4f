/** Sets V8's flags for a process that serves, and collects what the start and each busy time have left. */
import { setFlagsFromString } from "node:v8";
import type { Clock } from "../ports/clock.ts";
import { collector, whenIdle } from "../ports/idle.ts";

/**
 * Set after the start, as cached compiled code is only used under the flags that it was made with. The percentages say what
 * an event costs more without the flag: CPU an event beside that of a raw request, in turns with and without, the mean of
 * the pairs (`npm run bench -- throughput --form ids --rounds 2 --seconds 5`).
 */
const FLAGS = [
  // Without it some processes allocate short-lived objects as old ones after a burst, and these keep alive what they point
  // at: a young collection promotes 2.5 MB instead of 1.0 and takes 4.6 ms instead of 2.5. 6 % (four pairs: 8, 5, 10 and 1).
  "--no-allocation-site-pretenuring",
  // Without them V8 drops compiled code after 8 quiet seconds, and the next burst runs at 75 % of its speed for seconds.
  // 3 % (two pairs: 3 and 3).
  "--memory-reducer-delay-ms=600000",
  "--gc-memory-reducer-start-delay-ms=600000",
  // A major collection every 6 s at full speed instead of every 1.5 s. 8 % (two pairs: 13 and 4).
  "--heap-growing-percent=100",
];

/**
 * Sets V8's flags for a process that serves, then collects what the start leaves behind (sources read, modules compiled)
 * and gives the pages back: about 20 MB, in about 20 ms. After each busy time it does so again, once, when the thread has
 * been idle for two minutes: V8 itself would wait for ten, and a relay that has delivered at full speed keeps about 120 MB of
 * garbage until then (`npm run bench -- memory`). To be called once, soon after the start.
 * @returns resolves, never rejects, when the signal ends it
 */
export async function keepHeapTidy(clock: Pick<Clock, "now" | "sleep">, signal: AbortSignal): Promise<void> {
  for (const flag of FLAGS) setFlagsFromString(flag);
  const collect = collector();
  collect();
  await whenIdle((ms) => clock.sleep(clock.now() + ms, signal), collect);
}
