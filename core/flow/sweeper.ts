/** The sweeper: refills the queue from storage at start and on a timer, and drops what has expired. */
import { parseExpiryKey } from "../model/keys.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";

const SWEEP_MS = 30_000;
const EXPIRY_PAGE = 500;

export interface Sweeper {
  /** Sweeps once, resolves when the queue knows what is due first, and goes on by itself. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function createSweeper(deps: {
  readonly storage: Pick<Storage, "queue" | "range" | "commit">;
  readonly clock: Clock;
  readonly log: Log;
}): Sweeper {
  const { storage, clock, log } = deps;
  const stopping = new AbortController();
  let loop: Promise<void> | undefined;

  /** Deletes the targets whose time has passed; repeating it deletes nothing more. */
  async function expire(): Promise<void> {
    for (;;) {
      const page = await storage.range("expiry:", { limit: EXPIRY_PAGE });
      const over = page.filter(({ key }) => parseExpiryKey(key).at <= clock.now());
      if (over.length === 0) return;
      await storage.commit(
        over.flatMap(({ key }) => [
          { op: "delete", key: parseExpiryKey(key).target },
          { op: "delete", key },
        ]),
      );
      if (over.length < EXPIRY_PAGE) return;
    }
  }

  async function run(): Promise<void> {
    for (;;) {
      await clock.sleep(clock.now() + SWEEP_MS, stopping.signal);
      try {
        await storage.queue.sweep();
        await expire();
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
      await loop;
    },
  };
}
