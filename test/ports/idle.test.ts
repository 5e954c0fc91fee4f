/** When the heap of a process that serves is tidied. */
import { expect, it } from "vitest";
import { whenIdle } from "../../core/ports/idle.ts";
import { testClock } from "../support/clock.ts";

const LOOK_MS = 30_000;

it("is tidied once after the start and after each busy time, when some minutes were quiet", async () => {
  const clock = testClock();
  const over = new AbortController();
  let utilization = 0;
  let collected = 0;
  const ended = whenIdle(
    (ms) => clock.sleep(clock.now() + ms, over.signal),
    () => void collected++,
    () => utilization,
  );
  const look = async (now: number): Promise<number> => {
    utilization = now;
    await clock.advance(LOOK_MS);
    return collected;
  };
  const looks = async (...all: readonly number[]): Promise<number> => {
    for (const now of all) await look(now);
    return collected;
  };
  const [idle, busy] = [0.001, 0.9];
  expect(await looks(idle, idle, idle)).toBe(0);
  expect(await looks(idle, idle)).toBe(1);
  expect(await looks(busy, busy, idle, idle, idle)).toBe(1);
  expect(await looks(busy, idle, idle, idle)).toBe(1);
  expect(await looks(idle)).toBe(2);
  expect(await looks(idle, idle, idle, idle, idle)).toBe(2);
  expect(await looks(busy, idle, idle, idle, idle)).toBe(3);
  over.abort();
  await ended;
});
