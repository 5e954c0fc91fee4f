// Jobs by the clock, while the wall clock is set: they run by what it says now, and none waits for a time that was wrong.
import { describe, expect, it } from "vitest";
import { Jobs } from "../../core/runtime/jobs.ts";
import type { Job } from "../../core/ports/plan.ts";
import { cron } from "../../plugins/source/cron.ts";
import { context } from "../support/context.ts";
import { desk } from "../support/intake.ts";
import { quietLog } from "../support/quiet.ts";
import { testPath } from "../support/path.ts";

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
const QUARTERLY = "*/15 * * * *";

/** A node with a job on this schedule. The test's clock begins at midnight. */
async function started(schedule: string, work: () => Promise<unknown> = async () => undefined) {
  const test = await testPath();
  const { storage, clock } = test;
  const [runs, log] = [[] as string[], quietLog()];
  const run = async (): Promise<number> => {
    const count = runs.push(new Date(clock.now()).toISOString().slice(0, 19));
    await work();
    return count;
  };
  const job: Job = { kind: "job", name: "retention", schedule, deliveredAfterMs: DAY_MS };
  const jobs = new Jobs({ jobs: [job], storage, run, log, clock });
  await clock.advance(MINUTE_MS);
  jobs.start();
  return {
    runs,
    clock,
    log,
    async [Symbol.asyncDispose]() {
      await jobs.stop();
      await test[Symbol.asyncDispose]();
    },
  };
}

describe("a job", () => {
  it("whose clock is set back by a day runs at its next time of the right day", async () => {
    await using node = await started(QUARTERLY);
    await node.clock.advance(30 * MINUTE_MS);
    expect(node.runs).toEqual(["2026-01-01T00:15:00", "2026-01-01T00:30:00"]);
    await node.clock.step(-DAY_MS);
    await node.clock.advance(60 * MINUTE_MS);
    expect(node.runs.slice(2)).toEqual([45, 60, 75, 90].map((minutes) => iso(minutes - 24 * 60)));
  });

  it("whose clock is set forwards by a year goes on from there, and makes up for nothing", async () => {
    await using node = await started("* * * * *");
    await node.clock.advance(2 * MINUTE_MS);
    await node.clock.step(365 * DAY_MS);
    const began = process.hrtime.bigint();
    await node.clock.advance(2 * MINUTE_MS);
    expect(node.runs).toEqual([2, 3, 4 + 365 * 24 * 60, 5 + 365 * 24 * 60].map(iso));
    expect(Number(process.hrtime.bigint() - began) / 1e9).toBeLessThan(2);
  });

  it("runs once at a time that comes twice within the hour", async () => {
    await using node = await started(QUARTERLY);
    await node.clock.advance(16 * MINUTE_MS);
    await node.clock.step(-10 * MINUTE_MS);
    await node.clock.advance(25 * MINUTE_MS);
    expect(node.runs).toEqual([15, 30].map(iso));
  });

  it("that still runs leaves its ticks out, and says so", async () => {
    const held = Promise.withResolvers<void>();
    await using node = await started(QUARTERLY, () => held.promise);
    await node.clock.advance(31 * MINUTE_MS);
    expect(node.runs).toEqual([15].map(iso));
    expect(node.log.lines.map(({ message }) => message)).toContain("a job still runs, and a tick of it is left out");
    held.resolve();
    await node.clock.advance(15 * MINUTE_MS);
    expect(node.runs).toEqual([15, 45].map(iso));
  });

  it("of a schedule with seconds runs at them", async () => {
    await using node = await started("*/20 * * * * *");
    await node.clock.advance(MINUTE_MS);
    expect(node.runs).toEqual(["2026-01-01T00:01:20", "2026-01-01T00:01:40", "2026-01-01T00:02:00"]);
  });
});

describe("cron()", () => {
  it("whose clock is set back by a day ticks at its next time of the right day", async () => {
    const { intake, clock, told } = desk();
    const event = { type: "report.due", keyId: "key_1", data: {} };
    const source = await cron({ schedule: QUARTERLY, event }).setup(context({ clock }));
    await source.start(intake.accept, { durability: "fsync" } as never);
    await clock.advance(16 * MINUTE_MS);
    await clock.step(-DAY_MS);
    await clock.advance(30 * MINUTE_MS);
    await source.stop();
    const ticks = [15, 30 - 24 * 60, 45 - 24 * 60];
    expect(told.map(({ id }) => id)).toEqual(ticks.map((at) => `report:due-${iso(at)}Z`));
  });
});

/** A time so many minutes after the start of the test's clock. */
function iso(minutes: number): string {
  return new Date(Date.parse("2026-01-01T00:00:00Z") + minutes * MINUTE_MS).toISOString().slice(0, 19);
}
