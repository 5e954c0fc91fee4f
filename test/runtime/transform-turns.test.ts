// Turns at the workers of transforms: everybody gets a fair share of the time, and slow ones never hold all workers.
import { describe, expect, it } from "vitest";
import { Turns, type TransformTurn } from "../../core/runtime/transforms/turns.ts";

/** Workers whose runs take as long as told, on a clock of their own. */
function bench(workers = 2, capacity = 64) {
  const turns = new Turns<string>(workers, capacity);
  const under = new Map<TransformTurn<string>, number>();
  const log: string[] = [];
  let now = 0;
  const start = (costs: (job: string) => number): void => {
    for (let turn = turns.next(now); turn !== undefined; turn = turns.next(now)) {
      log.push(turn.job);
      under.set(turn, now + costs(turn.job));
    }
  };
  return {
    turns,
    log,
    get now() {
      return now;
    },
    /** Runs until `ms` have passed; `refill` is called after each run. */
    run(ms: number, costs: (job: string) => number, refill: () => void = () => undefined): void {
      const end = now + ms;
      start(costs);
      for (;;) {
        const [first] = [...under].toSorted(([, a], [, b]) => a - b);
        if (first === undefined || first[1] > end) break;
        const [turn, at] = first;
        now = at;
        under.delete(turn);
        turns.ended(turn, now - turn.began);
        refill();
        start(costs);
      }
      now = end;
    },
  };
}

const of = (log: readonly string[], who: string): number => log.filter((job) => job === who).length;

describe("the turns of transforms", () => {
  it("alternate between two that always wait", () => {
    const made = bench(1);
    const fill = (): void => {
      for (const who of ["a", "b"]) made.turns.join(who, who, who);
    };
    fill();
    made.run(100, () => 1, fill);
    expect(Math.abs(of(made.log, "a") - of(made.log, "b"))).toBeLessThan(3);
  });

  it("share time and not runs: who takes ten times as long has a tenth of the runs", () => {
    const made = bench(1, 8);
    const fill = (): void => {
      made.turns.join("long", "t", "long");
      made.turns.join("short", "t", "short");
    };
    fill();
    made.run(20_000, (job) => (job === "long" ? 40 : 4), fill);
    const ratio = of(made.log, "short") / of(made.log, "long");
    expect(ratio).toBeGreaterThan(7);
    expect(ratio).toBeLessThan(13);
  });

  it("keep a worker for quick ones, however many slow ones there are", () => {
    const made = bench(2);
    const fill = (): void => {
      for (let i = 0; i < 40; i++) made.turns.join(`slow${i}`, "endless", "slow");
    };
    fill();
    made.run(5_000, () => 1_000, fill);
    const before = made.log.length;
    made.turns.join("quick", "slack", "quick");
    made.run(0, (job) => (job === "quick" ? 1 : 1_000), fill);
    expect(made.log.slice(before)).toContain("quick");
  });

  it("expect of a new subscription what its transform takes for others", () => {
    const made = bench(2);
    made.turns.join("first", "endless", "first");
    made.run(1_000, () => 1_000);
    for (const who of ["second", "third"]) made.turns.join(who, "endless", who);
    made.run(10, () => 1_000);
    // One worker stays free.
    expect(made.log).toEqual(["first", "second"]);
  });

  it("send slow ones away for a while instead of letting them wait in numbers, and a quick one never for theirs", () => {
    const made = bench(2, 8);
    made.turns.join("slow", "endless", "slow");
    made.run(1_000, () => 1_000);
    expect(made.turns.join("slow", "endless", "slow")).toBeUndefined();
    expect(made.turns.join("slow", "endless", "slow")).toBeUndefined();
    expect(made.turns.join("slow", "endless", "slow")).toBeGreaterThanOrEqual(100);
    for (let i = 0; i < 20; i++) made.turns.join(`other${i}`, "endless", "other");
    expect(made.turns.join("late", "endless", "late")).toBeLessThanOrEqual(10_000);
    expect(made.turns.join("quick", "slack", "quick")).toBeUndefined();
  });

  it("bound what waits, and let in who has nothing waiting before who has", () => {
    const made = bench(1, 4);
    for (let i = 0; i < 4; i++) expect(made.turns.join("a", "t", "a")).toBeUndefined();
    expect(made.turns.join("a", "t", "a")).toBe(100);
    expect(made.turns.join("b", "t", "b")).toBeUndefined();
    expect(made.turns.join("b", "t", "b")).toBe(100);
    for (let i = 0; i < 3; i++) expect(made.turns.join(`c${i}`, "t", "c")).toBeUndefined();
    expect(made.turns.join("d", "t", "d")).toBe(100);
  });

  it("forget a job that is taken back", () => {
    const made = bench(1);
    made.turns.join("a", "t", "first");
    made.turns.join("a", "t", "second");
    expect(made.turns.leave("first")).toBe(true);
    expect(made.turns.leave("first")).toBe(false);
    made.run(10, () => 1);
    expect(made.log).toEqual(["second"]);
    made.turns.join("a", "t", "third");
    expect(made.turns.drain()).toEqual(["third"]);
    expect(made.turns.next(made.now)).toBeUndefined();
  });

  it("take nobody for slow after one long run, for the machine may have stood still, but after some in a row", () => {
    const made = bench(2);
    const runs = (count: number, ms: number): void => {
      for (let i = 0; i < count; i++) {
        made.turns.join("a", "t", "a");
        made.run(ms, () => ms);
      }
    };
    const isSlow = (): boolean => {
      const waits = Array.from({ length: 3 }, () => made.turns.join("a", "t", "a"));
      made.turns.drain();
      return waits[2] !== undefined;
    };
    runs(5, 1);
    runs(1, 2_000);
    expect(isSlow()).toBe(false);
    runs(3, 2_000);
    expect(isSlow()).toBe(true);
  });

  it("let who was slow be quick again after some quick runs", () => {
    const made = bench(2);
    made.turns.join("a", "t", "a");
    made.run(1_000, () => 1_000);
    for (let i = 0; i < 20; i++) {
      made.turns.join("a", "t", "a");
      made.run(1, () => 1);
    }
    for (let i = 0; i < 8; i++) expect(made.turns.join("a", "t", "a")).toBeUndefined();
  });
});
