/** Rounds of work that a crash may leave unfinished: one that fails is said and made again, and no call is missed. */
import { expect, it } from "vitest";
import { createRounds } from "../../core/retention/rounds.ts";
import { testClock, turn } from "../support/clock.ts";
import { quietLog } from "../support/quiet.ts";

function opened(work: (round: number) => Promise<void>) {
  const clock = testClock();
  const log = quietLog();
  let count = 0;
  const rounds = createRounds({ work: () => work(++count), clock, log });
  return { clock, log, rounds, count: () => count };
}

it("a round that fails is said, and made again within half a minute", async () => {
  const { clock, log, rounds, count } = opened(async (round) => {
    if (round === 1) throw new Error("the disk is away");
  });
  rounds.start();
  await turn();
  expect(log.lines).toMatchObject([{ level: "warn", fields: { error: "Error: the disk is away" } }]);
  await clock.advance(30_000);
  await turn();
  expect([count(), log.lines.length]).toEqual([2, 1]);
  await rounds.stop();
});

it("a call runs a round at once, and one that comes during a round runs another after it, never beside it", async () => {
  const ends: (() => void)[] = [];
  const { rounds, count } = opened(() => new Promise((resolve) => ends.push(resolve)));
  for (let n = 1; n <= 3; n++) {
    rounds.wake();
    expect(count()).toBe(2 * n - 1);
    rounds.wake();
    await turn();
    expect(count()).toBe(2 * n - 1);
    ends.shift()?.();
    await turn();
    expect(count()).toBe(2 * n);
    ends.shift()?.();
    await turn();
  }
  await rounds.stop();
  rounds.wake();
  expect(count()).toBe(6);
});
