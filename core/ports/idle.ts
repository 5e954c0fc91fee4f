/** Gives memory back after a busy time: V8 by itself waits for more garbage, which may never come. */
import { performance } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** How often it looks whether the thread has become idle, ms. */
const LOOK_MS = 30_000;
/** A thread that works for less than this part of the time is idle. */
const IDLE = 0.02;
/** So many looks in a row must find it idle: some compiled code goes too, so that bursts which follow soon keep theirs. */
const LOOKS = 4;

/**
 * Calls `giveBack` after the start and after each busy time, once, when the thread has been idle at some looks in a row.
 * @param sleep resolves after so many ms, and rejects when this is to end
 * @param utilization the part of the time since the last call in which the thread worked, 0…1
 * @returns resolves when `sleep` rejects
 */
export async function whenIdle(
  sleep: (ms: number) => Promise<unknown>,
  giveBack: () => void,
  utilization: () => number = utilizationOfThisThread(),
): Promise<void> {
  /** Looks that still have to find it idle; 0: nothing is to be given back. */
  let left = LOOKS;
  for (;;) {
    try {
      await sleep(LOOK_MS);
    } catch {
      return;
    }
    if (utilization() >= IDLE) left = LOOKS;
    else if (left > 0 && --left === 0) giveBack();
  }
}

function utilizationOfThisThread(): () => number {
  let before = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    return utilization;
  };
}

/** Returns V8's collector, which it shows only to contexts that are made while a flag is set. */
export function collector(): () => void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("globalThis.gc") as ((how: object) => void) | undefined;
  setFlagsFromString("--no-expose-gc");
  return () => collect?.({ type: "major", execution: "sync", flavor: "last-resort" });
}
