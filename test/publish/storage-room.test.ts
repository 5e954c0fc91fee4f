// Publishing stops while there is still room to finish what was accepted.
import { describe, expect, it } from "vitest";
import { createAdmission } from "../../core/publish/admission.ts";
import { roomOf } from "../../core/publish/rules.ts";
import { testClock } from "../support/clock.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { refusal } from "../support/refusal.ts";

const MIB = 1024 * 1024;

function desk(totalBytes: number, reserveBytes?: number) {
  const clock = testClock();
  const now = { freeBytes: totalBytes, waiting: 0, fails: false };
  const storage = {
    room: () =>
      now.fails ? Promise.reject(new Error("no answer")) : Promise.resolve({ freeBytes: now.freeBytes, totalBytes }),
    queue: { depth: () => Promise.resolve({ waiting: now.waiting, leased: 0 }) },
  };
  const room = roomOf({
    storage,
    clock,
    log: quietLog(),
    ...(reserveBytes !== undefined && { reserveBytes }),
  });
  const opens = async (): Promise<boolean> => {
    await clock.advance(1_000);
    await room?.look?.(0);
    await clock.advance(0);
    return room?.closed !== true;
  };
  return { now, storage, clock, room, opens };
}

describe("the room for what was accepted", () => {
  it("is 128 MiB of a large disk, a tenth of a small one, or what the config says", async () => {
    for (const [total, given, least] of [
      [100_000 * MIB, undefined, 128 * MIB],
      [100 * MIB, undefined, 10 * MIB],
      [100_000 * MIB, 5_000 * MIB, 5_000 * MIB],
      [100_000 * MIB, 0, 0],
    ] as const) {
      const { now, opens } = desk(total, given);
      now.freeBytes = least;
      expect(await opens()).toBe(true);
      now.freeBytes = Math.max(0, least - 1);
      expect(await opens()).toBe(least === 0);
    }
  });

  it("grows with what is pending, and opens again only well above it", async () => {
    const { now, opens } = desk(100_000 * MIB);
    now.freeBytes = 140 * MIB;
    expect(await opens()).toBe(true);
    now.waiting = 10_000;
    expect(await opens()).toBe(false);
    now.waiting = 0;
    expect(await opens()).toBe(false);
    now.freeBytes = 141 * MIB;
    expect(await opens()).toBe(true);
  });

  it("is looked at again at once when a burst may have used it up, however young the last look is", async () => {
    const { now, room, opens } = desk(100_000 * MIB);
    now.freeBytes = 130 * MIB;
    expect(await opens()).toBe(true);
    expect(room?.look?.(MIB / 8)).toBe(undefined);
    now.freeBytes = 127 * MIB;
    await room?.look?.(MIB);
    expect(room?.closed).toBe(true);
  });

  it("is refused as a full storage, with a time to come back", async () => {
    const { now, room, opens } = desk(100 * MIB);
    now.freeBytes = 0;
    await opens();
    expect(room).toMatchObject({ closed: true, code: "STORAGE_FULL", retryAfter: 30 });
  });

  it("is not in the way while the storage cannot tell, and where it never can", async () => {
    const { now, opens } = desk(100 * MIB);
    now.fails = true;
    expect(await opens()).toBe(true);
    const queue = { depth: () => Promise.resolve({ waiting: 0, leased: 0 }) };
    expect(roomOf({ storage: { queue }, clock: testClock(), log: quietLog() })).toBeUndefined();
  });
});

describe("an event that was admitted before its body came", () => {
  function doors() {
    const { now, storage, clock } = desk(100 * MIB);
    const admission = createAdmission({
      storage: {
        ...storage,
        range: () => Promise.resolve([]),
        getMany: () => Promise.resolve([]),
        queue: { ...storage.queue, pending: () => Promise.resolve(0) },
      },
      subscriptionCache: { of: () => [] },
      clock,
      maxPending: 0,
      log: quietLog(),
      metrics: quietMetrics(),
    });
    const pass = async (admittedAt?: number): Promise<void> => {
      const publications = [{ text: "{}", path: "" }];
      await admission.pass(
        { publications, source: "test", ...(admittedAt !== undefined && { admittedAt }) },
        clock.monotonic(),
      );
    };
    return { now, clock, admission, pass };
  }

  it("is not asked about the room again, unless its body was slow", async () => {
    const { now, clock, admission, pass } = doors();
    await pass();
    await clock.advance(240);
    const admittedAt = admission.admit();
    now.freeBytes = 0;
    await clock.advance(20);
    // The reading is old by now: the next event begins another one.
    await pass();
    await clock.advance(0);
    expect((await refusal(pass())).code).toBe("STORAGE_FULL");
    await pass(admittedAt);
    await clock.advance(40);
    expect((await refusal(pass(admittedAt))).code).toBe("STORAGE_FULL");
  });

  it("is taken again once there is room, although no other got in meanwhile", async () => {
    const { now, clock, admission, pass } = doors();
    now.freeBytes = 0;
    await pass().catch(() => undefined);
    expect(() => admission.admit()).toThrow(/STORAGE_FULL/);
    now.freeBytes = 100 * MIB;
    await clock.advance(300);
    expect(() => admission.admit()).toThrow(/STORAGE_FULL/);
    await clock.advance(0);
    await pass(admission.admit());
  });
});
