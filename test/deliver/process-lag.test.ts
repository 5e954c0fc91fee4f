// A process that is kept waiting itself takes nobody for slow.
import { expect, it } from "vitest";
import { createProcessLag } from "../../core/deliver/process-lag.ts";
import { testClock, turn } from "../support/clock.ts";

it("counts what timers are late, also the one that is late just now, and stops when nothing needs it", async () => {
  const clock = testClock();
  let stalled = 0;
  let needed = true;
  const timers: (() => void)[] = [];
  const sleep = (until: number): Promise<void> => clock.sleep(until).then(() => new Promise((go) => timers.push(go)));
  const lag = createProcessLag({ now: clock.now, monotonic: () => clock.monotonic() + stalled, sleep }, () => needed);
  lag.watch();
  lag.watch();
  await clock.advance(100);
  expect(timers).toHaveLength(1);
  timers.shift()?.();
  await turn();
  expect(lag.total(clock.monotonic() + stalled)).toBe(0);
  stalled = 700;
  expect(lag.total(clock.monotonic() + stalled)).toBe(600);
  await clock.advance(100);
  expect(lag.total(clock.monotonic() + stalled)).toBe(700);
  timers.shift()?.();
  await turn();
  expect(lag.total(clock.monotonic() + stalled)).toBe(700);
  needed = false;
  await clock.advance(100);
  timers.shift()?.();
  await turn();
  expect(clock.sleeping()).toEqual([]);
  stalled = 5_000;
  expect(lag.total(clock.monotonic() + stalled)).toBe(700);
});
