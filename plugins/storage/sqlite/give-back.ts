/** Lets the writer's thread give memory back after a busy time. */
import { collector, whenIdle } from "../../../core/ports/idle.ts";

/**
 * Gives back pages of the cache, and garbage of batches: V8 by itself would keep 40 MB of that for ever.
 * @param sleep resolves after so many ms
 * @param shrink empties the cache
 */
export function giveBackWhenIdle(sleep: (ms: number) => Promise<void>, shrink: () => void): void {
  whenIdle(sleep, () => {
    collector()();
    shrink();
  }).catch(() => undefined);
}
