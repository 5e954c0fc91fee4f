/**
 * Refills the queue from storage, at start and on a timer, deletes what has expired, also where a clock was wrong, ends what
 * waits of subscriptions that were disabled or deleted, and lets deliveries go on that are held up for no reason any more.
 */
import { createCautiousNow } from "../model/cautious-now.ts";
import { expiryKey, parseExpiryKey } from "../model/keys.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import type { Endings } from "../records/endings.ts";
import { skipForgotten } from "../records/held.ts";
import { everyEntry } from "../records/every-entry.ts";
import { tryCommit } from "../records/optimistic-update.ts";

const SWEEP_MS = 30_000;
const EXPIRY_PAGE = 500;
/** Both kinds are kept for a day, ms. */
const KEPT_MS = 86_400_000;
const LOOK_MS = 1_800_000;
/** Most lines that are remembered. The others have their turn when these are gone. */
const MOST = 10_000;

interface Sweeper {
  /** Sweeps once, resolves when the queue holds the first due lines, and continues by itself. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function createSweeper(deps: {
  readonly storage: Pick<Storage, "queue" | "getItem" | "getMany" | "range" | "commit">;
  readonly endings: Pick<Endings, "resume" | "stop">;
  readonly clock: Clock;
  readonly log: Log;
}): Sweeper {
  const { storage, endings, clock, log } = deps;
  const stopping = new AbortController();
  let loop: Promise<void> | undefined;
  const now = createCautiousNow(clock);
  const overlong = createOverlongExpiries(storage, clock);

  /** Deletes what has expired, together with its expiry line. Repeating it deletes nothing more. */
  async function expire(): Promise<void> {
    for (;;) {
      const page = await storage.range("expiry:", { limit: EXPIRY_PAGE });
      const over = page.filter(({ key }) => parseExpiryKey(key).at <= now());
      if (over.length === 0) return;
      await dropEach(over);
      if (over.length < EXPIRY_PAGE) return;
    }
  }

  async function dropOverlong(): Promise<void> {
    const over = await overlong();
    for (let i = 0; i < over.length; i += EXPIRY_PAGE) await dropEach(over.slice(i, i + EXPIRY_PAGE));
    if (over.length > 0) log.info("what a clock that was ahead had stored is gone", { count: over.length });
  }

  async function dropEach(lines: readonly Entry[]): Promise<void> {
    if (!(await drop(lines))) for (const line of lines) await drop([line]);
  }

  /** A new use of a target removes its expiry line: then it stays. @returns false when that happened meanwhile */
  async function drop(lines: readonly Entry[]): Promise<boolean> {
    return await tryCommit(
      storage,
      lines.flatMap(({ key, value }): readonly Change[] => [
        { op: "delete", key, if: value },
        { op: "delete", key: parseExpiryKey(key).target },
      ]),
    );
  }

  async function run(): Promise<void> {
    for (;;) {
      endings.resume();
      await clock.sleep(clock.now() + SWEEP_MS, stopping.signal);
      try {
        await storage.queue.sweep();
        await expire();
        await dropOverlong();
        const skipped = await skipForgotten(storage);
        if (skipped > 0) log.info("deliveries went on that nothing holds up any more", { count: skipped });
      } catch (error) {
        log.warn("a sweep failed", { error: String(error) });
      }
    }
  }

  return {
    async start() {
      await storage.queue.sweep();
      loop ??= run().catch(() => undefined);
    },
    async stop() {
      stopping.abort(new Error("stopping"));
      await endings.stop();
      await loop;
    },
  };
}

/**
 * Finds what a clock that was ahead has stored for longer than its rule could have asked for: ids of erased events, and
 * requests with an Idempotency-Key, which would stay taken until the clock gets there.
 *
 * Returns the expiry lines of what this node has seen for a day, so that it was kept for long enough whichever clock is
 * wrong: by the wall clock alone, one that is behind would forget what a right one has stored. Looks every half hour.
 */
function createOverlongExpiries(
  storage: Pick<Storage, "range">,
  clock: Pick<Clock, "now" | "monotonic">,
): () => Promise<readonly Entry[]> {
  /** Monotonic ms at which a line was first seen, by its key. */
  let seen = new Map<string, number>();
  let nextLook = Number.NEGATIVE_INFINITY;

  return async () => {
    const at = clock.monotonic();
    if (at < nextLook) return [];
    const still = new Map<string, number>();
    const over: Entry[] = [];
    for await (const line of everyEntry(storage, "expiry:", { after: expiryKey(clock.now() + 2 * KEPT_MS, "") })) {
      if (still.size >= MOST) break;
      if (!/^(?:eventid|idempotency):/.test(parseExpiryKey(line.key).target)) continue;
      const since = seen.get(line.key) ?? at;
      still.set(line.key, since);
      if (at - since >= KEPT_MS) over.push(line);
    }
    seen = still;
    nextLook = at + LOOK_MS;
    return over;
  };
}
