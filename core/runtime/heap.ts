/** What V8's heap is told, and when. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Everything is made young. V8 learns, in some processes and not in others, to make objects old at once where a burst has
 * kept them for long; dead ones among them then keep whatever they point at until the next major collection. Measured at
 * full speed: each young collection promotes 2.5 MB instead of 1.0, and takes 4.6 ms instead of 2.5. To be called before
 * anything is compiled.
 */
export function youngHeap(): void {
  setFlagsFromString("--no-allocation-site-pretenuring");
}

/**
 * Collects what a start leaves behind (sources read, modules compiled), once, before the first events come, and gives the
 * pages back: about 20 MB. Blocks for about 20 ms.
 */
export function tidyHeap(): void {
  // V8 shows its collector only to contexts made while the flag is set.
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  setFlagsFromString("--no-expose-gc");
  if (typeof collect === "function")
    (collect as (how: object) => void)({ type: "major", execution: "sync", flavor: "last-resort" });
}
