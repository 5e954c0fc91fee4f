// Suspensions in a process with threads: whichever of them begins one, it is stored, and outlives the process.
import { describe, expect, it } from "vitest";
import { ABUSE } from "../../config/defaults.ts";
import { createLimiter, type Limiter } from "../../core/limits/limiter.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock, type TestClock } from "../support/clock.ts";
import { hostStorage } from "../support/hosted-storage.ts";
import { pluginContext } from "../support/plugin-context.ts";

const ROW = "POST /v1/withdraw/create";

async function limiterOf(node: Storage, clock: TestClock): Promise<Limiter> {
  const { counters } = node;
  const limiter = createLimiter({ counters, rows: { [ROW]: { perMinute: 6, per5s: 2 } }, abuse: ABUSE, clock, storage: node }); // prettier-ignore
  await limiter.load();
  return limiter;
}

const asked = async (limiter: Limiter, caller: string): Promise<string | undefined> =>
  (await limiter.check(ROW, caller))?.code;

describe("a suspension", () => {
  it("that any thread begins lasts over a restart, and a later thread undoes none", async () => {
    const clock = testClock();
    const storage = await memory().setup(pluginContext(clock, "/nonexistent"));
    const process = hostStorage(storage, clock);
    const threads = [await process.connect(), await process.connect()] as const;
    const [first, second] = [await limiterOf(threads[0], clock), await limiterOf(threads[1], clock)];
    for (let i = 0; i < 40; i++) await asked(first, "one");
    for (let i = 0; i < 40; i++) await asked(second, "two");
    expect([await asked(second, "one"), await asked(first, "two")]).toEqual(["ABUSE_SUSPEND", "ABUSE_SUSPEND"]);
    // A thread that comes later changes nothing.
    const third = await limiterOf(await process.connect(), clock);
    expect([await asked(third, "one"), await asked(third, "two")]).toEqual(["ABUSE_SUSPEND", "ABUSE_SUSPEND"]);
    const stored = await storage.range("suspension:", { limit: 10 });
    expect(stored.map(({ value }) => (JSON.parse(value) as { key: string }).key.split(" ").at(-1)).sort()).toEqual([
      "one",
      "two",
    ]);
    await process.close();
  });
});
