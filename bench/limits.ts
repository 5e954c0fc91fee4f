/** Measures the cost of a decision of the limiter: counters alone, the limiter with its headers, two callers, many principals. */
import { Limiter } from "../core/limits/limiter.ts";
import type { Caller } from "../core/limits/limiter.ts";
import { systemClock } from "../core/runtime/clock.ts";
import { ABUSE } from "../config/defaults.ts";
import { createCounters } from "../plugins/storage/embedded/counters.ts";

export interface LimitFigure {
  readonly name: string;
  /** CPU of this process per decision. */
  readonly microseconds: number;
}

const ROUND = 200_000;
const ROWS = { "POST /a/{id}": { perMinute: 15, per5s: 3 }, "GET /wide": { perMinute: 1e9, per5s: 1e9 } };

/** Runs all of it once to warm up, then measures: CPU time, so that neighbours on the machine count little. */
export function limitFigures(): readonly LimitFigure[] {
  const clock = systemClock();
  const limiter = () => new Limiter({ counters: createCounters(clock), rows: ROWS, abuse: ABUSE, clock });
  const names = Array.from({ length: 90_000 }, (_, i) => `user-${i}`);
  const [one, many, refused, two] = [limiter(), limiter(), limiter(), limiter()];
  const crowd = createCounters(clock, { capacity: 100_000 });
  const sustained = { limit: 1e9, windowMs: 60_000 };
  const burst = { limit: 1e9, windowMs: 5_000 };
  let fresh = 0;
  const cases: readonly (readonly [string, (i: number) => unknown])[] = [
    ["one caller, passing", () => one.check("GET /wide", "alice")],
    ["90,000 callers, passing", (i) => many.check("GET /wide", names[i % names.length] as string)],
    ["one caller, refused", () => refused.check("POST /a/{id}", "alice")],
    ["key and address, passing", (i) => two.check("GET /wide", [names[i % 1_000] as string, ADDRESS])],
    ["counters alone", () => crowd.take([{ key: "alice", sustained, burst }])],
    ["a new principal each time, at capacity", () => crowd.take([{ key: `new ${fresh++}`, sustained, burst }])],
  ];
  for (const [, decide] of cases) run(decide, ROUND);
  return cases.map(([name, decide]) => ({ name, microseconds: run(decide, ROUND) }));
}

const ADDRESS: Caller = { principal: "203.0.113.7", factor: 10 };

function run(decide: (i: number) => unknown, times: number): number {
  const before = process.cpuUsage();
  for (let i = 0; i < times; i++) decide(i);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / times;
}

if (import.meta.main) {
  for (const { name, microseconds } of limitFigures())
    console.log(`${microseconds.toFixed(2).padStart(8)} µs  ${name}`);
}
