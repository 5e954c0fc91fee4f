// Checks the requests that the receivers saw: none twice without an interruption, none before its time, none
// later than its policy and the faults of that time explain.
import { RETRY, TIMEOUT_MS } from "./relay.ts";
import type { Subject } from "./subject.ts";
import { STALL, type Timeline } from "./timeline.ts";

export interface RequestsSeen {
  /** Requests beyond one for each attempt. */
  readonly extra: number;
  readonly violations: readonly string[];
}

export interface SeenIn {
  readonly subjects: readonly Subject[];
  readonly timeline: Timeline;
  /** A claim lapses after so long without a sign of life; 0 where a storage has one node only. */
  readonly leaseMs: number;
  /** The receiver that always fails at once: by it the schedule is seen. */
  readonly failing: Subject;
}

/** Faults that end a process, and with it the attempts that it has under way. */
export const ENDS = new Set(["SIGKILL", "SIGTERM", "SIGKILL at fsync"]);
/** Who stood still, or was cut off, may go on with what it began before. */
export const FREEZES = new Set([
  "SIGSTOP",
  ...["Redis", "PostgreSQL"].flatMap((name) => [
    `${name} SIGSTOP`,
    `${name} black hole`,
    `${name} failover`,
    `${name} reset`,
  ]),
  STALL,
]);
/** Times of the wall clock mean nothing meanwhile. */
export const STEPS = new Set(["clock step", STALL]);
/** Timers and clocks are in whole milliseconds. */
const GRAIN_MS = 5;
/** Beyond what its wait, its lease and the faults of the time explain, a retry is late by at most so much on a quiet machine. */
const LATE_MS = 30_000;
const JITTER = 0.1;

/** The shortest wait after attempt `n`, ms. */
const waitMs = (n: number): number => Math.min(RETRY.firstDelayMs * RETRY.factor ** (n - 1), RETRY.maxDelayMs);

export function requestsSeen({ subjects, timeline, leaseMs, failing }: SeenIn): RequestsSeen {
  const violations: string[] = [];
  let extra = 0;

  /** Every request beyond the first needs something that may have cut off the one before it. */
  function twice(where: string, times: readonly number[]): void {
    for (const [i, at] of times.entries()) {
      const before = times[i - 1];
      if (before === undefined) continue;
      extra++;
      const ended = timeline.within(before, at, ENDS).length > 0;
      const lapsed = leaseMs > 0 && at - before > leaseMs - TIMEOUT_MS && timeline.within(before, at).length > 0;
      if (!ended && !lapsed)
        violations.push(`${where} was made again after ${Math.round(at - before)} ms without an interruption`);
    }
  }

  function early(where: string, number: number, from: number, to: number): void {
    const least = waitMs(number) - GRAIN_MS;
    if (to - from >= least || timeline.within(from, to, STEPS).length > 0) return;
    violations.push(`${where} was made ${Math.round(to - from)} ms after attempt ${number}, ${least} ms at least`);
  }

  function late(where: string, number: number, from: number, to: number): void {
    const usual = waitMs(number) * (1 + JITTER) + TIMEOUT_MS + leaseMs + LATE_MS;
    if (to - from <= usual) return;
    const most = usual * timeline.slowness(from, to) + timeline.disturbedMs(from, to);
    if (to - from > most)
      violations.push(
        `${where} was made ${Math.round(to - from)} ms after attempt ${number}, ${Math.round(most)} ms at most`,
      );
  }

  for (const subject of subjects) {
    const { number: path, book } = subject;
    for (const [id, { requests, givenUp }] of book) {
      for (const [turn, times] of requests) {
        const where = `${id} at ${path}: attempt ${turn}`;
        twice(where, times);
        const [cycle = "", number = ""] = turn.split("/");
        const [first] = times;
        const before = requests.get(`${cycle}/${Number(number) - 1}`)?.findLast((at) => at <= (first ?? 0));
        if (Number(number) === 1 || first === undefined) continue;
        // One that got no further than its connection is an attempt, too.
        if (before !== undefined) {
          if (!givenUp.has(`${cycle}/${Number(number) - 1}`)) early(where, Number(number) - 1, before, first);
          if (subject === failing) late(where, Number(number) - 1, before, first);
        }
      }
    }
  }
  return { extra, violations };
}
