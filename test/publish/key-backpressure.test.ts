// What a node counts as pending of one API key, and how often it looks.
import { describe, expect, it } from "vitest";
import { createAdmission } from "../../core/publish/admission.ts";
import { testClock } from "../support/clock.ts";
import { publish } from "../support/intake.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";

/** A limit of ten pending deliveries for each key. */
function room(shared = true) {
  const clock = testClock();
  const world = { pending: 0, tookMs: 0, looks: 0 };
  const queue = {
    async pending() {
      world.looks++;
      if (world.tookMs > 0) await clock.advance(world.tookMs);
      return world.pending;
    },
  };
  const none = (): Promise<never[]> => Promise.resolve([]);
  const limit = createAdmission({
    storage: { queue, range: none, getMany: none, nodes: shared ? {} : undefined } as never,
    subscriptionCache: { of: () => [{ id: "sub_a" }] as never },
    ...{ clock, log: quietLog(), metrics: quietMetrics(), maxPending: 0, maxPendingPerKey: 10 },
  });
  const isRefused = async (): Promise<boolean> => {
    try {
      limit.turns.leave(await limit.enter(publish([{}]), ["key_1"]));
      return false;
    } catch {
      return true;
    }
  };
  return { clock, world, limit, isRefused };
}

describe("the backlog of one key", () => {
  it("is read again within a second or so where other nodes add to it", async () => {
    const { clock, world, isRefused } = room();
    expect(await isRefused()).toBe(false);
    world.pending = 11;
    await clock.advance(1_300);
    expect(await isRefused()).toBe(true);
  });

  it("is not read again where nobody else adds to it, until what was added here may have passed the limit", async () => {
    const { clock, world, limit, isRefused } = room(false);
    await isRefused();
    const { looks } = world;
    await clock.advance(60_000);
    expect(await isRefused()).toBe(false);
    expect(world.looks).toBe(looks);
    limit.added(Array(11).fill({ subscriptionId: "sub_a", keyId: "key_1" }));
    world.pending = 5;
    await clock.advance(300);
    expect(await isRefused()).toBe(false);
    expect(world.looks).toBe(looks + 1);
  });

  it("is read the less often the longer that takes", async () => {
    const { clock, world, isRefused } = room();
    world.tookMs = 1_000;
    world.pending = 20;
    expect(await isRefused()).toBe(true);
    await clock.advance(15_000);
    world.pending = 0;
    expect(await isRefused()).toBe(true);
    expect(world.looks).toBe(1);
    await clock.advance(6_000);
    expect(await isRefused()).toBe(false);
  });
});
