// The clock of the machine, on a machine that takes the processor away at any moment.
import { afterEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";

/** Keeps this thread for so long, as a scheduler does that lets another one run. */
function preempted(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

/** Each reading of that clock takes `ms`, before or after the value is taken. */
function slowly(object: { now(): number }, when: "before" | "after"): void {
  const real = object.now.bind(object);
  let busy = false;
  vi.spyOn(object, "now").mockImplementation(() => {
    if (busy) return real();
    busy = true;
    try {
      if (when === "before") preempted(40);
      const read = real();
      if (when === "after") preempted(40);
      return read;
    } finally {
      busy = false;
    }
  });
}

describe("the clock of the machine", () => {
  afterEach(() => void vi.restoreAllMocks());

  it.for(["before", "after"] as const)(
    "never ends a wait early, though the thread is held up %s it reads the time",
    async (when) => {
      const clock = systemClock();
      // In this order: what comes between the two readings makes the wait longer.
      const end = clock.monotonic() + 100;
      const wall = clock.now() + 100;
      slowly(Date, when);
      await clock.sleep(wall);
      vi.restoreAllMocks();
      // The wall clock is in whole milliseconds.
      expect(performance.now()).toBeGreaterThanOrEqual(end - 2);
    },
  );
});
