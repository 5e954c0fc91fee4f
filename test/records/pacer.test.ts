// Work that is paced keeps its pace, whatever the wall clock does, and ends with the relay.
import Bottleneck from "bottleneck";
import { afterEach, expect, it, vi } from "vitest";
import { createPacer } from "../../core/records/pacer.ts";
import { systemClock } from "../../core/runtime/clock.ts";

const clock = systemClock();
const HOUR_MS = 3_600_000;
const done = (): Promise<boolean> => Promise.resolve(true);

/** As an operator does it, or NTP. */
function setClock(byMs: number): void {
  const now = Date.now.bind(Date);
  vi.spyOn(Date, "now").mockImplementation(() => now() + byMs);
}
afterEach(() => void vi.restoreAllMocks());

it("begins so often", async () => {
  using pacer = createPacer(clock, { maxConcurrent: 1, minTime: 30 });
  const from = performance.now();
  await Promise.all([pacer.schedule(done), pacer.schedule(done)]);
  // Timers count whole milliseconds.
  expect(performance.now() - from).toBeGreaterThan(28);
});

it.each([-HOUR_MS, HOUR_MS])("does not wait for a clock that was set by %i ms", async (ms) => {
  using pacer = createPacer(clock, { maxConcurrent: 1, minTime: 30 });
  await pacer.schedule(done);
  setClock(ms);
  expect([await pacer.schedule(done), await pacer.schedule(done)]).toEqual([true, true]);
});

it("refuses what may not wait, and does not go on refusing when the clock was set back", async () => {
  using pacer = createPacer(clock, { minTime: HOUR_MS, highWater: 0, strategy: Bottleneck.strategy.OVERFLOW });
  expect([await pacer.schedule(done), await pacer.schedule(done)]).toEqual([true, undefined]);
  setClock(-10 * HOUR_MS);
  expect(await pacer.schedule(done)).toBe(true);
});

it("keeps a pace that was changed when the clock was set back", async () => {
  using pacer = createPacer(clock, { minTime: 0, highWater: 0, strategy: Bottleneck.strategy.OVERFLOW });
  pacer.setMinTime(HOUR_MS);
  setClock(-10 * HOUR_MS);
  expect([await pacer.schedule(done), await pacer.schedule(done)]).toEqual([true, undefined]);
});

it("drops what waits once its signal is aborted, and throws what work throws", async () => {
  const stop = new AbortController();
  using pacer = createPacer(clock, { maxConcurrent: 1, minTime: HOUR_MS }, stop.signal);
  await expect(pacer.schedule(() => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
  const waiting = pacer.schedule(done);
  stop.abort();
  expect([await waiting, await pacer.schedule(done)]).toEqual([undefined, undefined]);
});
