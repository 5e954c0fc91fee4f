// Jobs over one storage: a tick runs once whoever wakes, a crash in its middle leaves nothing half done, a stop is prompt.
import { describe, expect, it } from "vitest";
import { Jobs } from "../../core/runtime/jobs.ts";
import type { Job } from "../../core/ports/plan.ts";
import { quietLog } from "../support/quiet.ts";
import { replied, testPath, type PathOptions, type TestPath } from "../support/path.ts";

const DAY_MS = 86_400_000;
const REPLAY = { olderThanMs: 0, maxAgeMs: 3 * DAY_MS, maxReplays: 24, limit: 1_000, perSecond: 1_000 };
const job = (more: Partial<Job> = {}): Job => ({ name: "replay", schedule: "*/15 * * * *", ...REPLAY, ...more }) as Job;
const now = new AbortController().signal;
/** Long enough for what a run has moved at its pace to be made. */
const settle = (test: TestPath): Promise<void> => test.clock.advance(1_000);

async function failing(count: number, options: PathOptions = {}): Promise<TestPath & { readonly sub: string }> {
  const test = await testPath({ retry: { attempts: 1 }, ...options });
  test.otherwise = replied(500);
  const sub = await test.subscribe();
  await test.start();
  for (let i = 0; i < count; i++) await test.publish();
  await test.whenSent(count);
  await settle(test);
  return Object.assign(test, { sub });
}
const nodeOf = ({ storage, clock }: TestPath, jobs: readonly Job[], run: (job: Job) => Promise<number>): Jobs =>
  new Jobs({ jobs, storage, run, log: quietLog(), clock });
const failedLines = (test: TestPath) => test.storage.range("failed:", { limit: 1_000 });

/** A receiver that never answers. */
const hangs: TestPath["otherwise"] = (_, signal) =>
  new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));

/** How many rows are read from here on. */
function countReads({ storage }: TestPath): () => number {
  const { range, getMany, getItem } = storage;
  let rows = 0;
  const count = <T extends readonly unknown[]>(page: T): T => {
    rows += page.length;
    return page;
  };
  storage.range = async (...args) => count(await range(...args));
  storage.getMany = async (...args) => count(await getMany(...args));
  storage.getItem = async (...args) => (rows++, await getItem(...args));
  return () => rows;
}

describe("a tick", () => {
  it("runs once over all nodes of a storage, and the next one runs again", async () => {
    await using test = await testPath();
    const ran: string[] = [];
    const nodes = ["one", "two", "three"].map((name) => nodeOf(test, [job()], async () => ran.push(name)));
    const at = new Date(test.clock.now());
    // The nodes' timers do not ring in the same millisecond.
    const won = await Promise.all(
      nodes.map((node, i) => node.tick(job(), new Date(at.getTime() + i * 100)).catch(() => false)),
    );
    expect(won.filter(Boolean)).toHaveLength(1);
    const later = new Date(at.getTime() + 900_000);
    expect(await nodes[2]?.tick(job(), later)).toBe(true);
    expect(await nodes[0]?.tick(job(), later)).toBe(false);
    expect(await nodes[0]?.tick(job(), at)).toBe(false);
    expect(ran).toHaveLength(2);
  });

  it("that a clock took a day ahead of its time holds up none of today", async () => {
    await using test = await testPath();
    const node = nodeOf(test, [job()], async () => 1);
    const today = (minutes: number): Date => new Date(test.clock.now() + minutes * 60_000);
    expect(await node.tick(job(), new Date(test.clock.now() + DAY_MS))).toBe(true);
    expect(await node.tick(job(), today(0))).toBe(true);
    expect(await node.tick(job(), today(0))).toBe(false);
    expect(await node.tick(job(), today(15))).toBe(true);
  });

  it("of one job is not that of another, though they are alike", async () => {
    await using test = await testPath();
    const jobs = [job({ name: "retention" }), job(), job()];
    const ran: Job[] = [];
    const node = nodeOf(test, jobs, async (one) => ran.push(one));
    for (const one of jobs) expect(await node.tick(one, new Date(test.clock.now()))).toBe(true);
    expect(ran).toEqual(jobs);
  });
});

describe("the replay job", () => {
  it("takes what is exhausted, old enough, young enough, and was not replayed too often", async () => {
    await using test = await failing(3);
    const run = test.parts.replayJob;
    expect(await run({ ...REPLAY, olderThanMs: 600_000 }, now)).toBe(0);
    await test.clock.advance(600_000);
    expect(await run({ ...REPLAY, olderThanMs: 600_000, maxAgeMs: 599_000 }, now)).toBe(0);
    expect(await run({ ...REPLAY, olderThanMs: 600_000, limit: 2 }, now)).toBe(2);
    await settle(test);
    expect(test.sent).toHaveLength(5);
    expect(await run({ ...REPLAY, maxReplays: 1 }, now)).toBe(1);
    await settle(test);
    expect(test.sent).toHaveLength(6);
    expect(await run({ ...REPLAY, maxReplays: 1 }, now)).toBe(0);
    test.otherwise = replied(200);
    expect(await run({ ...REPLAY, maxReplays: 2 }, now)).toBe(3);
    await settle(test);
    expect(test.sent).toHaveLength(9);
    expect(await failedLines(test)).toEqual([]);
    expect(new Set(test.sent.slice(6).map(({ headers }) => headers["X-Relay-Replay"]))).toEqual(new Set(["2"]));
  });

  it("leaves alone what failed because its subscription was disabled, and whatever belongs to a disabled one", async () => {
    await using test = await failing(2);
    const { update } = test.parts.subscriptions;
    await update("key_1", test.sub, { status: "disabled" }, { sub: "t" });
    await test.publish();
    expect(await test.parts.replayJob(REPLAY, now)).toBe(0);
    await update("key_1", test.sub, { status: "active" }, { sub: "t" });
    expect(await test.parts.replayJob(REPLAY, now)).toBe(2);
  });

  it("spreads what it moves over time, and over subscriptions together", async () => {
    await using test = await testPath({ retry: { attempts: 1 } });
    test.otherwise = replied(500);
    for (let i = 0; i < 10; i++) await test.subscribe();
    await test.start();
    await test.publish();
    await test.whenSent(10);
    await settle(test);
    test.otherwise = replied(200);
    const began = test.clock.now();
    expect(await test.parts.replayJob({ ...REPLAY, perSecond: 2 }, now)).toBe(10);
    expect(test.clock.now()).toBe(began);
    await test.clock.advance(2_400);
    expect(test.sent).toHaveLength(15);
    await test.clock.advance(3_000);
    expect(test.sent).toHaveLength(20);
  });

  it("stops at once when the relay does, though its pace would make it wait for long", async () => {
    await using test = await failing(201);
    const stop = new AbortController();
    const running = test.parts.replayJob({ ...REPLAY, perSecond: 1 }, stop.signal);
    await expect.poll(async () => (await failedLines(test)).length).toBeLessThan(110);
    stop.abort();
    const began = performance.now();
    expect(await running).toBe(100);
    // Nobody moves the clock: a wait for its pace would last for ever.
    expect(performance.now() - began).toBeLessThan(30_000);
  });

  it("that died in its middle has moved some whole and left the rest for the next tick", async () => {
    await using test = await failing(150);
    const { commit } = test.storage;
    let commits = 0;
    test.storage.commit = async (changes) => {
      if (commits++ === 1) throw new Error("killed");
      await commit(changes);
    };
    await expect(test.parts.replayJob(REPLAY, now)).rejects.toThrow("killed");
    test.storage.commit = commit;
    await settle(test);
    expect(test.sent).toHaveLength(250);
    test.otherwise = replied(200);
    expect(await test.parts.replayJob(REPLAY, now)).toBe(150);
    await settle(test);
    expect(test.sent).toHaveLength(400);
    expect(await failedLines(test)).toEqual([]);
    expect(await test.storage.range("due:")).toEqual([]);
  });

  it("moves many in one commit, and those that were changed meanwhile one by one", async () => {
    await using test = await failing(50);
    const { commit } = test.storage;
    let commits = 0;
    test.storage.commit = async (changes) => {
      if (commits++ === 0) {
        const [first] = await failedLines(test);
        const ordinal = first?.key.split(":")[2] ?? "";
        await test.parts.replay.event("key_1", `evt_${ordinal}`);
      }
      await commit(changes);
    };
    expect(await test.parts.replayJob(REPLAY, now)).toBe(49);
    await settle(test);
    expect(test.sent).toHaveLength(100);
    commits = 0;
    expect(await test.parts.replayJob({ ...REPLAY, limit: 20 }, now)).toBe(20);
    expect(commits).toBeLessThan(25);
  });

  it("does not read again what can come into question no more", async () => {
    await using test = await failing(300);
    await test.parts.replayJob(REPLAY, now);
    await settle(test);
    const rule = { ...REPLAY, maxReplays: 1 };
    expect(await test.parts.replayJob(rule, now)).toBe(0);
    const rows = countReads(test);
    expect(await test.parts.replayJob(rule, now)).toBe(0);
    expect(rows()).toBeLessThan(10);
    await test.clock.advance(DAY_MS + 1);
    expect(await failedLines(test)).toHaveLength(300);
    // The clock stands still during a run, so that the first may have failed again within it.
    expect(await test.parts.replayJob({ ...rule, maxReplays: 2, maxAgeMs: 9 * DAY_MS }, now)).toBeGreaterThan(290);
  });
});

describe("retention", () => {
  const shelves = ["event", "eventid", "delivery", "attempts", "failed", "due"];
  const left = async (test: TestPath): Promise<Record<string, number>> =>
    Object.fromEntries(
      await Promise.all(
        shelves.map(
          async (shelf) => [shelf, (await test.storage.range(`${shelf}:`, { limit: 1_000 })).length] as const,
        ),
      ),
    );

  it("by default removes delivered, cancelled and unmatched events after their time, and nothing else ever", async () => {
    await using test = await testPath({ retry: { attempts: 1 } });
    const sub = await test.subscribe(["paid"]);
    const doomed = await test.subscribe(["doomed"]);
    await test.subscribe(["late"]);
    await test.start();
    await test.publish("paid", { id: "own:1" });
    await test.publish("nobody");
    await test.whenSent(1);
    await settle(test);
    // A receiver that asks for rest keeps `late` pending for an hour at a time.
    test.answers = [replied(500)];
    const failed = await test.publish("paid");
    await test.whenSent(2);
    test.otherwise = hangs;
    await test.publish("doomed");
    await test.whenSent(3);
    await test.parts.subscriptions.remove("key_1", doomed, { sub: "t" });
    await settle(test);
    const pending = await test.publish("late");
    await test.whenSent(4);
    // No attempt lasts for days: this one goes back as it was.
    await test.parts.dispatcher.stop(0);
    const { run } = test.parts.retention;
    expect(await run({ deliveredAfterMs: 3 * DAY_MS }, now)).toBe(0);
    await test.clock.advance(4 * DAY_MS);
    expect(await run({ deliveredAfterMs: 3 * DAY_MS }, now)).toBe(3);
    expect(await left(test)).toEqual({ event: 2, eventid: 0, delivery: 1, attempts: 0, failed: 1, due: 1 });
    expect([await test.status(failed), await test.status(pending)]).toEqual(["failed", "pending"]);
    expect(await run({ deliveredAfterMs: 3 * DAY_MS, failedAfterMs: 6 * DAY_MS }, now)).toBe(0);
    await test.clock.advance(3 * DAY_MS);
    expect(await run({ deliveredAfterMs: 3 * DAY_MS, failedAfterMs: 6 * DAY_MS }, now)).toBe(1);
    expect(await test.status(pending)).toBe("pending");
    expect(await test.parts.subscriptionCache.get("key_1", sub)).toMatchObject({ status: "active" });
  });

  it("never removes anything within a day, whatever it is told: repeats are recognised for that long", async () => {
    await using test = await testPath();
    await test.subscribe();
    await test.start();
    await test.publish("deposit:paid", { id: "own:1" });
    await test.whenSent(1);
    await test.clock.advance(DAY_MS - 1_000);
    const { run } = test.parts.retention;
    expect(await run({ deliveredAfterMs: 0, failedAfterMs: 0 }, now)).toBe(0);
    await test.clock.advance(2_000);
    expect(await run({ deliveredAfterMs: 0, failedAfterMs: 0 }, now)).toBe(1);
    expect(await left(test)).toEqual({ event: 0, eventid: 0, delivery: 0, attempts: 0, failed: 0, due: 0 });
    expect(await test.publish("deposit:paid", { id: "own:1", data: 2 })).toBe("own:1");
  });

  it("counts the age from the end, so that what a replay has just delivered stays", async () => {
    await using test = await failing(1);
    await test.clock.advance(4 * DAY_MS);
    test.otherwise = replied(200);
    await test.parts.replayJob({ ...REPLAY, maxAgeMs: 100 * DAY_MS }, now);
    await test.whenSent(2);
    await settle(test);
    expect(await test.parts.retention.run({ deliveredAfterMs: 3 * DAY_MS }, now)).toBe(0);
    await test.clock.advance(4 * DAY_MS);
    expect(await test.parts.retention.run({ deliveredAfterMs: 3 * DAY_MS }, now)).toBe(1);
    expect(await left(test)).toEqual({ event: 0, eventid: 0, delivery: 0, attempts: 0, failed: 0, due: 0 });
  });

  it("that meets a replay on its way lets the replay win", async () => {
    await using test = await failing(1);
    await test.clock.advance(2 * DAY_MS);
    const { commit } = test.storage;
    test.storage.commit = async (changes) => {
      test.storage.commit = commit;
      const [line] = await failedLines(test);
      expect(line).toBeDefined();
      await test.parts.replayJob(REPLAY, now);
      await commit(changes);
    };
    expect(await test.parts.retention.run({ failedAfterMs: DAY_MS }, now)).toBe(0);
    await test.whenSent(2);
  });

  it("costs what it removes, not what stays beside it", async () => {
    await using test = await failing(300);
    test.otherwise = replied(200);
    await test.clock.advance(2 * DAY_MS);
    await test.publish();
    await test.whenSent(301);
    await settle(test);
    const { run } = test.parts.retention;
    expect(await run({ deliveredAfterMs: DAY_MS }, now)).toBe(0);
    const rows = countReads(test);
    expect(await run({ deliveredAfterMs: DAY_MS }, now)).toBe(0);
    await test.clock.advance(DAY_MS);
    expect(await run({ deliveredAfterMs: DAY_MS }, now)).toBe(1);
    expect(rows()).toBeLessThan(40);
    expect((await left(test))["event"]).toBe(300);
  });

  it("that is cut off goes on where it was, and leaves no event half removed", async () => {
    await using test = await testPath();
    await test.subscribe();
    await test.start();
    for (let i = 0; i < 250; i++) await test.publish("deposit:paid", { id: `own:${i}` });
    await test.whenSent(250);
    await settle(test);
    await test.clock.advance(2 * DAY_MS);
    const { commit } = test.storage;
    for (let at = 0; ; at++) {
      let commits = 0;
      test.storage.commit = async (changes) => {
        if (commits++ === at) throw new Error("killed");
        await commit(changes);
      };
      const ended = await test.parts.retention.run({ deliveredAfterMs: DAY_MS }, now).catch(() => undefined);
      const { event, eventid, delivery } = await left(test);
      expect([eventid, delivery]).toEqual([event, event]);
      if (ended !== undefined) break;
    }
    expect(await left(test)).toEqual({ event: 0, eventid: 0, delivery: 0, attempts: 0, failed: 0, due: 0 });
  });

  it("takes an event that a replay has delivered since it was passed by as failed", async () => {
    await using test = await failing(3);
    await test.clock.advance(2 * DAY_MS);
    const { run } = test.parts.retention;
    const rule = { deliveredAfterMs: DAY_MS };
    expect(await run(rule, now)).toBe(0);
    test.otherwise = replied(200);
    await test.parts.replay.failed({
      subscription: (await test.parts.subscriptionCache.get("key_1", test.sub)) as never,
      limit: 2,
      perSecond: 1_000,
    });
    await settle(test);
    expect(await run(rule, now)).toBe(0);
    await test.clock.advance(DAY_MS + 1);
    expect(await run(rule, now)).toBe(2);
    expect((await left(test))["event"]).toBe(1);
    expect(await test.storage.range("replayed:")).toEqual([]);
  });

  it("removes nothing that was changed since it was looked at, whatever changed it", async () => {
    const changes: Record<string, (test: TestPath, id: string, sub: string) => Promise<unknown>> = {
      "a forced replay": (test, id) => test.parts.replay.event("key_1", id, { force: true }),
      "a replay for a new subscriber": async (test, id) => {
        const subscriptionId = await test.subscribe();
        return test.parts.replay.event("key_1", id, { subscriptionId });
      },
      "a replay of one of two deliveries": (test, id, subscriptionId) =>
        test.parts.replay.event("key_1", id, { subscriptionId, force: true }),
    };
    for (const [what, change] of Object.entries(changes)) {
      await using test = await testPath();
      const sub = await test.subscribe();
      await test.subscribe();
      await test.start();
      const id = await test.publish();
      await test.whenSent(2);
      await settle(test);
      await test.clock.advance(2 * DAY_MS);
      const { commit } = test.storage;
      test.storage.commit = async (removal) => {
        if (!removal.some(({ op, key }) => op === "delete" && key.startsWith("event:"))) return commit(removal);
        test.storage.commit = commit;
        test.otherwise = hangs;
        await change(test, id, sub);
        return commit(removal);
      };
      expect(await test.parts.retention.run({ deliveredAfterMs: DAY_MS, failedAfterMs: DAY_MS }, now), what).toBe(0);
      expect(await test.status(id), what).toBe("pending");
      const { event, due, delivery } = await left(test);
      expect([event, due, (delivery ?? 0) >= 2], what).toEqual([1, what.includes("forced") ? 2 : 1, true]);
    }
  });

  it("leaves no tombstone for ever", async () => {
    await using test = await testPath();
    const sub = await test.subscribe();
    await test.start();
    await test.parts.subscriptions.remove("key_1", sub, { sub: "t" });
    const tombstones = async (): Promise<number> => (await test.storage.range("subscription:")).length;
    await test.clock.advance(29 * DAY_MS);
    expect(await tombstones()).toBe(1);
    await test.clock.advance(2 * DAY_MS);
    expect(await tombstones()).toBe(0);
    expect(await test.storage.range("expiry:")).toEqual([]);
  });
});
