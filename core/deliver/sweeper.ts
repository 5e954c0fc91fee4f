/**
 * Refills the queue from storage, at start and on a timer, deletes what has expired, ends what waits of
 * subscriptions that were disabled or deleted, and lets deliveries go on that are held up for no reason any more.
 */
import { createCautiousNow } from "../lib/cautious-now.ts";
import { every } from "../lib/every.ts";
import { EXPIRY } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import type { Endings } from "../records/endings.ts";
import { skipForgotten } from "../records/held.ts";
import { giveTurns } from "../records/missing-rows.ts";
import { tryCommit } from "../records/transaction.ts";

const SWEEP_MS = 30_000;
const EXPIRY_PAGE = 500;

export function createSweeper(deps: {
  readonly storage: Pick<Storage, "queue" | "getItem" | "getMany" | "range" | "commit">;
  readonly endings: Pick<Endings, "resume" | "stop">;
  readonly clock: Clock;
  readonly log: Log;
}) {
  const { storage, endings, clock, log } = deps;
  const stopping = new AbortController();
  let loop: Promise<void> | undefined;
  let turns: Promise<void> | undefined;
  const now = createCautiousNow(clock);

  /** Deletes what has expired, together with its expiry line. Repeating it deletes nothing more. */
  async function expire(): Promise<void> {
    for (;;) {
      const page = await storage.range(EXPIRY.start, { limit: EXPIRY_PAGE });
      const over = page.filter(({ key }) => EXPIRY.id(key).at <= now());
      if (over.length === 0) return;
      if (!(await drop(over))) for (const line of over) await drop([line]);
      if (over.length < EXPIRY_PAGE) return;
    }
  }

  /** A new use of a target removes its expiry line: then it stays. @returns false when that happened meanwhile */
  async function drop(lines: readonly Entry[]): Promise<boolean> {
    return await tryCommit(
      storage,
      lines.flatMap(({ key, value }): readonly Change[] => [
        { op: "delete", key, if: value },
        { op: "delete", key: EXPIRY.id(key).target },
      ]),
    );
  }

  async function sweep(): Promise<void> {
    try {
      await storage.queue.sweep();
      await expire();
      const skipped = await skipForgotten(storage);
      if (skipped > 0) log.info("deliveries went on that nothing holds up any more", { count: skipped });
    } catch (error) {
      log.warn("a sweep failed", { error: String(error) });
    }
    endings.resume();
  }

  /** A storage that has lost a row can leave a sequence in which it is nobody's turn. */
  async function give(): Promise<void> {
    const count = await giveTurns(storage, stopping.signal);
    if (count > 0) log.warn("deliveries went on in order whose rows were missing", { count });
  }

  return {
    /** Sweeps once, resolves when the queue holds the first due lines, and continues by itself. */
    async start(): Promise<void> {
      await storage.queue.sweep();
      endings.resume();
      turns ??= give().catch((error: unknown) => log.warn("a look for lost turns failed", { error: String(error) }));
      loop ??= every(clock, SWEEP_MS, sweep, stopping.signal);
    },
    async stop(): Promise<void> {
      stopping.abort(new Error("stopping"));
      await endings.stop();
      await Promise.all([turns, loop]);
    },
  };
}
