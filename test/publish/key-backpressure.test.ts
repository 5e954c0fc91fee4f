// What a node counts as pending of one API key, and how often it looks.
import { describe, expect, it } from "vitest";
import { createKeyBackpressure } from "../../core/publish/key-backpressure.ts";
import { testClock } from "../support/clock.ts";

const KEYS = ["key_1"];

/** A limit of ten pending deliveries for each key. */
function room(more: { readonly unwritten?: () => Promise<number>; readonly shared?: boolean } = {}) {
  const clock = testClock();
  const world = { pending: 0, tookMs: 0, looks: 0 };
  const pending = async (): Promise<number> => {
    world.looks++;
    if (world.tookMs > 0) await clock.advance(world.tookMs);
    return world.pending;
  };
  const subscriptionCache = { of: () => [{ id: "sub_a" }] };
  const limit = createKeyBackpressure({
    queue: { pending },
    subscriptionCache,
    clock,
    most: 10,
    shared: true,
    ...more,
  });
  const isRefused = async (): Promise<boolean> => {
    await limit.look(KEYS);
    try {
      limit.admit(KEYS);
      return false;
    } catch {
      return true;
    }
  };
  return { clock, world, limit, isRefused };
}

describe("the backlog of one key", () => {
  it("holds what its wide events still have to write", async () => {
    const { world, isRefused } = room({ unwritten: async () => 8 });
    world.pending = 3;
    expect(await isRefused()).toBe(true);
  });

  it("is read again within a second or so where other nodes add to it", async () => {
    const { clock, world, isRefused } = room();
    expect(await isRefused()).toBe(false);
    world.pending = 11;
    await clock.advance(1_300);
    expect(await isRefused()).toBe(true);
  });

  it("is not read again where nobody else adds to it, until what was added here may have passed the limit", async () => {
    const { clock, world, limit, isRefused } = room({ shared: false });
    await isRefused();
    const { looks } = world;
    await clock.advance(60_000);
    expect(await isRefused()).toBe(false);
    expect(world.looks).toBe(looks);
    limit.added("key_1", 11);
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
