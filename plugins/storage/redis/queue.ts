/** The shared queue: due deliveries on Redis, for every node. The commit itself writes the index. */
import { DAMAGED } from "../../../core/model/kind.ts";
import { DUE } from "../../../core/model/schema.ts";
import type { Due } from "../../../core/model/delivery.ts";
import { LeaseLostError } from "../../../core/model/errors.ts";
import { Waiters } from "../../../core/lib/waiters.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { ClaimRequest, Lease, Queue } from "../../../core/ports/storage.ts";
import type { Calls } from "./calls.ts";
import type { Channel } from "./channel.ts";
import { CANCEL, CLAIM, DEPTH, PAUSE, PENDING, RELEASE, RENEW, SWEEP } from "./queue-lua.ts";
import type { TimeArgument } from "./time-argument.ts";
import type { Writer } from "./writer.ts";

/** Longest time between two looks, in case a message is lost, ms. */
const LONGEST_WAIT_MS = 5_000;
/** …and while no messages can arrive, ms. */
const DEAF_WAIT_MS = 250;
const SWEEP_PAGE = 500;
/** Subscriptions whose lines are counted in one call. */
const PENDING_GROUP = 1_000;
/** Leases renewed by one script. */
const RENEWED = 500;

interface SharedQueue extends Queue {
  /** Notes that something will be due in this many ms; 0: now. */
  noteDue(inMs: number): void;
  close(): void;
}

export function sharedQueue(deps: {
  calls: Calls;
  writer: Writer;
  clock: Clock;
  time: TimeArgument;
  leaseMs: number;
  node: string;
  channel: () => Channel;
}): SharedQueue {
  const { calls, writer, clock, leaseMs, node, channel } = deps;
  const { now, noted } = deps.time;
  let closed = false;
  let timer: AbortController | undefined;
  let rung = true;
  const waiters = new Waiters();
  /** This process's time at which something known may be due. */
  let nextAt = 0;
  let blocked: ReadonlySet<string> = new Set();
  let unique = 0;

  function notify(): void {
    rung = true;
    timer?.abort();
    waiters.wake();
  }

  /** Sets the one timer for all waits. It fires from time to time in any case, in case a message is lost. */
  function arm(): void {
    timer?.abort();
    if (waiters.size === 0) return;
    timer = new AbortController();
    const longest = clock.now() + (channel().listening ? LONGEST_WAIT_MS : DEAF_WAIT_MS);
    clock.sleep(Math.min(nextAt, longest), timer.signal).then(notify, () => {});
  }

  function noteDue(inMs: number): void {
    if (inMs <= 0) return notify();
    nextAt = Math.min(nextAt, clock.now() + inMs);
    arm();
  }

  /** Notes that a subscription which had enough under way here has room again, as soon as the caller has updated its counts. */
  function freed(subscriptionId: string): void {
    if (blocked.has(subscriptionId)) setImmediate(notify);
  }

  async function rest(subscriptionId: string, ms: number, how: "pause" | "hold"): Promise<void> {
    await calls.run(PAUSE, [now(), subscriptionId, ms, how]);
    if (ms <= 0) notify();
  }

  const lineOf = (due: Due): string => DUE.key(due).slice(DUE.under({ subscriptionId: due.subscriptionId }).length);

  return {
    noteDue,
    close() {
      closed = true;
      notify();
    },
    // The commit that wrote the lines has notified already.
    add() {},

    async claim({ limit, perSubscription, busy }: ClaimRequest) {
      if (limit <= 0) return [];
      rung = false;
      const under = [...busy].filter(([, count]) => count !== 0).flat();
      const args = [now(), limit, perSubscription, leaseMs, `${node}.${++unique}`, LONGEST_WAIT_MS, ...under];
      const sentAt = clock.monotonic();
      // A claim whose answer is lost has leased lines that nobody works on; they come back when the lease lapses.
      const reply = (await calls.run(CLAIM, args, { repeatable: false })) as ClaimReply;
      noted(sentAt);
      const [serverNow, next, full, epoch, ...rows] = reply;
      // Changes that were missed are read again before anything begins.
      channel().atEpoch(epoch);
      blocked = new Set(full);
      nextAt = next < 0 ? Number.POSITIVE_INFINITY : clock.now() + Math.max(0, next - serverNow);
      if (next >= 0 && next <= serverNow) rung = true;
      return rows.flatMap(leaseOf);
    },

    wake(signal) {
      if (rung || closed) return Promise.resolve();
      const woken = waiters.wait(signal);
      arm();
      return woken;
    },

    extend: ({ subscriptionId, ordinal, token }) => writer.extend([subscriptionId, ordinal, token, leaseMs]),

    renewal: {
      // One renewal may fail; a lease granted right after it is still renewed long before its end.
      everyMs: Math.floor(leaseMs / 3),
      async renew(leases) {
        const all = [...leases];
        for (let i = 0; i < all.length; i += RENEWED) {
          const some = all.slice(i, i + RENEWED);
          const held = some.flatMap(({ subscriptionId, ordinal, token }) => [subscriptionId, ordinal, token]);
          await calls.run(RENEW, [now(), leaseMs, ...held]);
        }
      },
    },

    async settle(lease, changes, then) {
      const keep = then?.keep === undefined ? "" : lineOf(then.keep);
      const held = [lease.subscriptionId, lease.ordinal, lease.token, keep, leaseMs];
      await writer.settle(held, changes);
      freed(lease.subscriptionId);
    },

    async withdraw(line, changes) {
      try {
        await writer.withdraw([line.subscriptionId, line.ordinal, lineOf(line)], changes);
        return true;
      } catch (error) {
        if (error instanceof LeaseLostError) return false;
        throw error;
      }
    },

    async release({ subscriptionId, ordinal, token }, dueAt) {
      const inMs = dueAt === undefined ? "" : Math.max(0, dueAt - clock.now());
      const args = [now(), subscriptionId, ordinal, token, inMs];
      await calls.run(RELEASE, args);
      freed(subscriptionId);
      noteDue((dueAt ?? 0) - clock.now());
    },

    pause: (subscriptionId, ms) => rest(subscriptionId, ms, "pause"),
    hold: (subscriptionId, ms) => rest(subscriptionId, ms, "hold"),

    async cancel(subscriptionId) {
      await calls.run(CANCEL, [now(), subscriptionId, `${node}.${++unique}`]);
    },

    async sweep() {
      let [found, more, after, began] = [0, 0, "", ""];
      do {
        [more, after, began] = (await calls.run(SWEEP, [now(), after, SWEEP_PAGE, began])) as [number, string, string];
        found += more;
      } while (after !== "");
      if (found > 0) notify();
      return found;
    },

    async pending(subscriptionIds) {
      let lines = 0;
      for (let i = 0; i < subscriptionIds.length; i += PENDING_GROUP) {
        const group = [now(), ...subscriptionIds.slice(i, i + PENDING_GROUP)];
        lines += (await calls.run(PENDING, group)) as number;
      }
      return lines;
    },

    async depth() {
      const [lines, leased, oldest] = (await calls.run(DEPTH, [now()])) as [number, number, number];
      return { waiting: Math.max(0, lines - leased), leased, oldestDueAt: oldest < 0 ? undefined : oldest };
    },
  };
}

type ClaimReply = [now: number, next: number, blocked: string[], epoch: string, ...leases: Claimed[]];
type Claimed = [sub: string, line: string, value: string, token: string];

/** Returns nothing for a line that is not ours: the check of stored data reports it, and it delays no other. */
function leaseOf([subscriptionId, line, value, token]: Claimed): readonly Lease[] {
  const due = DUE.read(value, DUE.under({ subscriptionId }) + line);
  return due === DAMAGED ? [] : [{ ...due, token }];
}
