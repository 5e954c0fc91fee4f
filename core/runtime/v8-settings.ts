/** Sets V8's flags for a process that serves, and collects once what the start has left. */
import { executionAsyncResource } from "node:async_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Set after the start, as cached compiled code is only used under the flags that it was made with. Each figure is of the
 * relay at full speed without and with the flag, in turns. Paired runs since then (`npm run bench`) were too noisy to tell.
 */
const FLAGS = [
  // Without it some processes allocate short-lived objects as old ones after a burst, and these keep alive what they point
  // at: a young collection promotes 2.5 MB instead of 1.0 and takes 4.6 ms instead of 2.5.
  "--no-allocation-site-pretenuring",
  // Without them V8 drops compiled code after 8 quiet seconds, and the next burst runs at 75 % of its speed for seconds.
  "--memory-reducer-delay-ms=600000",
  "--gc-memory-reducer-start-delay-ms=600000",
  // A major collection every 6 s at full speed instead of every 1.5 s, for about 30 MB.
  "--heap-growing-percent=100",
];

/**
 * Sets V8's flags for a process that serves, then collects what a start leaves behind (sources read, modules compiled)
 * and gives the pages back: about 20 MB. To be called once, soon after the start. Blocks for about 20 ms.
 */
export async function tidyHeap(): Promise<void> {
  for (const flag of FLAGS) setFlagsFromString(flag);
  await keepTickShape();
  // V8 shows its collector only to contexts made while the flag is set.
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("globalThis.gc");
  setFlagsFromString("--no-expose-gc");
  if (typeof collect === "function")
    (collect as (how: object) => void)({ type: "major", execution: "sync", flavor: "last-resort" });
}

/** Lives as long as the process. */
const kept: object[] = [];

/**
 * Keeps one entry of Node's tick queue alive. A major collection that finds none drops their hidden class, and V8 then makes
 * each entry by its slowest way for good. The tick queue takes 3.7 % of the main thread without this and 0.9 % with it
 * (`npm run bench -- throughput --profile DIR`).
 */
function keepTickShape(): Promise<void> {
  return new Promise((done) => {
    process.nextTick(() => {
      kept.push(executionAsyncResource());
      done();
    });
  });
}
