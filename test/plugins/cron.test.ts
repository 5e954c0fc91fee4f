// cron(): one event for each tick, whatever happens around it.
import { describe, expect, it } from "vitest";
import { Problem } from "../../core/model/problem.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { cron, cronOn } from "../../plugins/source/cron.ts";
import type { CronOptions } from "../../plugins/source/cron/ticking.ts";
import { describeSource, type Upstream } from "../conformance/source.ts";
import { testClock } from "../support/clock.ts";
import { context } from "../support/context.ts";
import { desk } from "../support/intake.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";

const event = { type: "report.due", keyId: "key_1", data: { a: 1 } };
const info = { durability: "fsync" } as const;
const SEVEN = "2026-03-01T07:00:00Z";

/** A cron whose ticks the test makes. */
async function ticking(options: Partial<CronOptions> = {}) {
  const [clock, log] = [testClock(), quietLog()];
  let wake = Promise.withResolvers<void>();
  const moved = (): void => {
    wake.resolve();
    wake = Promise.withResolvers();
  };
  // The lag is told after each group of ticks.
  const metrics = { ...quietMetrics(), gauge: moved };
  let tick: ((at: Date) => void) | undefined;
  const plugin = cronOn({ schedule: "0 7 * * *", event, ...options }, (_, given) => {
    tick = given;
    return Promise.resolve(() => Promise.resolve((tick = undefined)));
  });
  const source = await plugin.setup(context({ clock, log, metrics }));
  return {
    source,
    clock,
    log,
    tick: (at: string) => tick?.(new Date(at)),
    /** Ticks, and resolves once it is stored, refused, or waits. */
    async done(at: string) {
      const { promise } = wake;
      tick?.(new Date(at));
      await promise;
    },
  };
}

/** One whose ticks are stored by the relay's own publisher. */
async function started(options: Partial<CronOptions> = {}) {
  const made = await ticking(options);
  const { intake, told } = desk();
  await made.source.start(intake.accept, info);
  return { ...made, told, [Symbol.asyncDispose]: () => made.source.stop() };
}

describe("cron() keeps the law of a source:", () => {
  const opened = new WeakMap<object, Awaited<ReturnType<typeof ticking>>>();
  const learned = ({ source, log }: Awaited<ReturnType<typeof ticking>>): Upstream => {
    if (source.readiness?.() !== undefined) return "later";
    return log.lines.some(({ message }) => message === "a message is set aside") ? "refused" : "acknowledged";
  };
  describeSource(it, {
    makes: '{"type":"report.due","keyId":"key_1","createdAt":"2026-03-01T07:00:00.000Z","data":{"a":1}}',
    async open() {
      const made = await ticking();
      const under = {
        source: made.source,
        async publish() {
          await made.done(SEVEN);
          return learned(made);
        },
        [Symbol.asyncDispose]: () => made.source.stop(),
      };
      opened.set(under, made);
      return under;
    },
    async again(under) {
      const made = opened.get(under) as Awaited<ReturnType<typeof ticking>>;
      await made.clock.advance(1_000);
      return learned(made);
    },
  });
});

describe("a tick", () => {
  it("becomes an event whose id and time are those of the tick", async () => {
    await using made = await started();
    await made.done("2026-03-01T07:00:00.123Z");
    expect(made.told).toMatchObject([{ id: "report:due-2026-03-01T07:00:00Z", type: "report.due", keyId: "key_1" }]);
    expect(made.told[0]?.body).toContain('"createdAt":"2026-03-01T07:00:00.000Z","data":{"a":1}}');
  });

  it("is one event on several nodes, also where each makes another", async () => {
    let count = 0;
    const own = (at: Date) => ({ ...event, data: { day: at.getUTCDate(), count: ++count } });
    const [one, other] = [await ticking({ event: own }), await ticking({ event: own })];
    const { intake, told } = desk();
    for (const { source } of [one, other]) await source.start(intake.accept, info);
    await Promise.all([one.done(SEVEN), other.done(SEVEN)]);
    expect(told).toHaveLength(1);
    expect([...one.log.lines, ...other.log.lines]).toEqual([]);
    await Promise.all([one.source.stop(), other.source.stop()]);
  });

  it("waits until it can be stored, and those after it too", async () => {
    const made = await ticking({ name: "daily" });
    const { intake, told } = desk();
    let refusing = true;
    await made.source.start((request) => {
      if (refusing) throw new Problem("STORAGE_FULL", "full");
      return intake.accept(request);
    }, info);
    await made.done(SEVEN);
    made.tick("2026-03-02T07:00:00Z");
    expect(made.source.readiness?.()).toContain("STORAGE_FULL");
    refusing = false;
    await made.clock.advance(60_000);
    expect(told.map(({ id }) => id)).toEqual(["01", "02"].map((day) => `daily-report:due-2026-03-${day}T07:00:00Z`));
    await made.source.stop();
  });

  it("may be none, and one whose function throws stops no other", async () => {
    await using made = await started({
      event: (at) => {
        if (at.getUTCDate() === 1) throw new Error("no data");
        if (at.getUTCDate() === 4) return Promise.reject(new Error("asked in vain")) as never;
        return at.getUTCDate() === 2 ? undefined : event;
      },
    });
    for (const day of ["01", "02", "04"]) made.tick(`2026-03-${day}T07:00:00Z`);
    await made.done("2026-03-03T07:00:00Z");
    expect(made.told.map(({ id }) => id)).toEqual(["report:due-2026-03-03T07:00:00Z"]);
    expect(made.log.lines.map(({ fields }) => fields["error"])).toEqual([
      "no data",
      "event has returned a promise: it must return its result at once",
    ]);
  });

  it("stops no other while its event is no JSON, however long that lasts", async () => {
    let data: unknown = 1n;
    const made = await started({ event: () => ({ ...event, data }) });
    for (let i = 0; i < 1_000; i++) made.tick(SEVEN);
    data = 1;
    made.tick("2026-03-02T07:00:00Z");
    expect(made.log.lines.filter(({ message }) => message.includes("dropped"))).toEqual([]);
    await made.source.stop();
    expect(made.told).toHaveLength(1);
  });

  it("comes from the schedule, each second where it says so", async () => {
    const { intake, told } = desk();
    const source = await cron({ schedule: "* * * * * *", event }).setup(context({ clock: systemClock() }));
    const twice = Promise.withResolvers<void>();
    await source.start(async (request) => {
      const answer = await intake.accept(request);
      if (told.length >= 2) twice.resolve();
      return answer;
    }, info);
    await twice.promise;
    await source.stop();
    expect(new Set(told.map(({ id }) => id)).size).toBe(told.length);
  });
});

describe("the options of cron", () => {
  it("are checked", async () => {
    const wrong = { schedule: "soon", event: { type: "é", keyId: "", nonsense: 1 }, other: 1, keyId: "key_1" };
    const paths = cron(wrong as unknown as CronOptions).problems?.map(({ path }) => path);
    expect(paths).toEqual(["other", "keyId", "schedule", "event.type", "event.keyId", "event.data"]);
    expect(cron({ schedule: "0 7 * * 1-5", event }).problems).toEqual([]);
    expect(cron({ schedule: "0 7 * * 1-5", event: (async () => event) as never }).problems).toEqual([
      { path: "event", message: "must not be async: it returns its result at once" },
    ]);
    for (const schedule of ["99 * * * *", "*/70 * * * *"])
      await expect(async () => cron({ schedule, event }).setup(context())).rejects.toThrow("cron expression");
  });
});
