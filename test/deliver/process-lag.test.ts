// A process that is kept waiting itself takes nobody for slow.
import { expect, it } from "vitest";
import { Slots } from "../../core/deliver/slots.ts";
import { testClock, turn } from "../support/clock.ts";

/** A quick receiver of a process that stalls, and timers that are due but have not fired. */
async function stalling() {
  const clock = testClock();
  const state = { stalled: 0, timers: [] as (() => void)[] };
  const sleep = (until: number): Promise<void> =>
    clock.sleep(until).then(() => new Promise((go) => void state.timers.push(go)));
  const slots = new Slots({
    ...{ total: 64, perSubscription: 16, lift: () => undefined },
    clock: { now: clock.now, monotonic: () => clock.monotonic() + state.stalled, sleep },
  });
  const take = () => {
    const slot = slots.tryTake({ subscriptionId: "quick", keyId: "key_1" });
    if (slot === undefined) throw new Error("no slot");
    slot.toward("https://one.example/hook");
    return slot;
  };
  const first = take();
  first.took(true);
  first.give();
  return { clock, state, slots, take };
}

it("counts out what its timers are late, also the one that is late just now", async () => {
  const { clock, state, slots, take } = await stalling();
  for (let n = 0; n < 8; n++) {
    const slot = take();
    // Half of it is over when the timer fires, and half is not.
    await clock.advance(100);
    state.stalled += 2_000;
    state.timers.shift()?.();
    await turn();
    await clock.advance(100);
    state.stalled += 2_000;
    slot.took(true);
    slot.give();
    state.timers.shift()?.();
    await turn();
  }
  expect(slots.isQuick("quick")).toBe(true);
});

it("counts in what its receiver took besides, and measures nothing while no slot is held", async () => {
  const { clock, state, slots, take } = await stalling();
  for (let n = 0; n < 8; n++) {
    const slot = take();
    for (let step = 0; step < 30; step++) {
      await clock.advance(100);
      state.timers.shift()?.();
      await turn();
    }
    slot.took(true);
    slot.give();
  }
  expect(slots.isQuick("quick")).toBe(false);
  await clock.advance(100);
  state.timers.shift()?.();
  await turn();
  expect(clock.sleeping()).toEqual([]);
});
