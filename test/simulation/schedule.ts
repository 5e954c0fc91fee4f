/** When attempts must be made, and when they must not: the retry schedule, and what is overdue. */
import { EVENT, DUE } from "../../core/model/schema.ts";
import type { RetryOptions } from "../../core/model/subscription.ts";
import type { SortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import type { Seen } from "./network.ts";
import type { Witness } from "./oracle.ts";
import { fail } from "./violation.ts";

/** An attempt is judged by then. */
export const DEADLINE_MS = 10_000;
/** Timers and clocks are in whole milliseconds. */
const GRAIN_MS = 5;

export interface Overdue {
  readonly rows: SortedMap;
  /** Also those that did not arrive. */
  readonly sent: readonly Seen[];
  readonly retry: RetryOptions;
  /** Ms of the world: now, and when all became well. */
  readonly now: number;
  readonly healedAt: number;
  readonly leaseMs: number;
  /** Longest rest that the circuit breaker may add; 0 where there is none. */
  readonly breakerMs: number;
  /** Replays are due within this. */
  readonly replayMs: number;
  /** Somebody asked for its deletion: nothing is to be sent there any more. */
  readonly gone: (subscriptionId: string) => boolean;
  /**
   * `<subscription> <ordinal>` → when an ordered delivery was first seen to have its turn: the one before it ends without
   * an attempt when its subscription is disabled. The check fills it.
   */
  readonly met: Map<string, number>;
}

/** When all is well, a claim that was lost comes back within its lease, and nothing waits much longer than that. */
const OVERDUE_MS = 10_000;
const JITTER = 0.1;
/** More than the attempts of a cycle. */
const MOST = 100;
/** All that is held is skipped this often. */
const SKIP_MS = 20_000;

/**
 * All has been well for a while: whatever is due was attempted within the longest lease and some seconds. What was never
 * tried is due at once; what was tried, as long after its last attempt as its policy or its receiver asked for, whatever
 * the clocks said meanwhile; and nothing before its receiver's rest is over.
 */
export function checkOverdue(at: Overdue): void {
  const { rows, sent, retry, now, healedAt, leaseMs, breakerMs, replayMs, gone, met } = at;
  const rests = new Map<string, number>();
  const tried = new Map<string, number>();
  /** Of an ordered one, the next has its turn when the one before has ended. */
  const turns = new Map<string, number>();
  /** Who has lost its lease may end a run of an earlier attempt after a later one. */
  const furthest = new Map<string, number>();
  for (const one of sent) {
    const { subscriptionId, eventId, cycle, number, sentAt, node, asked = 0, answered = 0 } = one;
    // Judged when its deadline was over, at the latest; by a node that stood still, when it went on.
    const judged = Math.max(sentAt, node.frozenUntil()) + DEADLINE_MS;
    const rest = judged + (answered >= 200 && answered < 300 ? asked : Math.max(asked, breakerMs));
    turns.set(subscriptionId, Math.max(turns.get(subscriptionId) ?? 0, judged + leaseMs + SKIP_MS));
    rests.set(subscriptionId, Math.max(rests.get(subscriptionId) ?? 0, rest));
    const wait = Math.max(asked, waitMs(number, retry) * (1 + JITTER));
    // Nothing tells a time that a dead process wrote by a clock that was ahead from one that is right; but the wait
    // is not longer than it was, from the next start on.
    const ahead = node.diedAt() <= now ? Math.min(wait, Math.max(0, one.offset)) : 0;
    const name = `${subscriptionId} ${eventId}`;
    const turn = cycle * MOST + number;
    if (turn < (furthest.get(name) ?? 0)) continue;
    furthest.set(name, turn);
    tried.set(name, judged + wait + ahead);
  }
  for (const { key, value } of rows.range("due:", { limit: 1_000_000 })) {
    const { subscriptionId, keyId, ordinal, attempts, cycle, order } = DUE.orThrow(value, key);
    if (gone(subscriptionId)) continue;
    const text = rows.get(EVENT.key({ keyId, ordinal }));
    // Its event is erased, and it goes with it.
    if (text === undefined) continue;
    const { id } = EVENT.orThrow(text);
    const place = `${subscriptionId} ${ordinal}`;
    if (order !== undefined && !met.has(place)) met.set(place, now);
    const turn = order === undefined ? 0 : Math.max(met.get(place) ?? 0, turns.get(subscriptionId) ?? 0);
    const wait = attempts > 0 ? (tried.get(`${subscriptionId} ${id}`) ?? 0) : cycle > 0 ? healedAt + replayMs : turn;
    const late = now - Math.max(healedAt, wait, rests.get(subscriptionId) ?? 0) - leaseMs - OVERDUE_MS;
    if (late > 0) fail(`${key} → ${value} is overdue by ${Math.round(late)} ms`);
  }
}

/** The wait after attempt `n`, ms, at least. */
const waitMs = (n: number, retry: RetryOptions): number =>
  retry.delaysMs === undefined
    ? Math.min(retry.firstDelayMs * retry.factor ** (n - 1), retry.maxDelayMs)
    : (retry.delaysMs[n - 1] ?? 0);

/**
 * Each attempt waits for as long as its policy, or its receiver, asked for after the one before it. One that was sent again,
 * because nobody knew whether its result was stored, counts from whichever result was.
 */
export function schedule({ seen, retry, slackMs }: Pick<Witness, "seen" | "retry" | "slackMs">): void {
  const all = new Map<string, Seen[]>();
  for (const one of seen) {
    const name = `${one.subscriptionId} ${one.eventId} ${one.cycle}`;
    const before = all.get(`${name} ${one.number - 1}`) ?? [];
    const same = all.get(`${name} ${one.number}`);
    if (same === undefined) all.set(`${name} ${one.number}`, [one]);
    else same.push(one);
    const tooSoon = before.map((earlier) => {
      const least = Math.max(waitMs(one.number - 1, retry), earlier.asked ?? 0) - GRAIN_MS;
      const waited = one.sentAt - earlier.sentAt;
      return waited < least - slackMs(earlier, one)
        ? `${waited} ms after the one before it, ${least} at least`
        : undefined;
    });
    if (tooSoon.length > 0 && !tooSoon.includes(undefined))
      fail(`${name} ${one.number} was sent ${tooSoon.join("; ")}`);
  }
}
