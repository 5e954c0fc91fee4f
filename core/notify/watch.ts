/**
 * Finds what no single event shows: overlaps of secrets that are about to end, and backlogs above their bounds. Reports
 * also what was held back and whose hour is over. It runs beside the path, every 30 s.
 */
import { API_KEY, OVERLAP } from "../model/schema.ts";
import { OPERATOR_KEY } from "../model/names.ts";
import { pendingHigh, secretExpiring } from "../model/notice.ts";
import { ConflictError } from "../model/errors.ts";
import { isLive } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Entry, Storage } from "../ports/storage.ts";
import { everyEntry } from "../records/every-entry.ts";
import { unlessUnreadable } from "../records/damage.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { tryCommit } from "../records/transaction.ts";
import type { Notices } from "./notices.ts";

/** Pending deliveries above which it is reported; 0: never. */
interface PendingBounds {
  readonly pending: number;
  readonly pendingPerKey: number;
}

interface NoticeWatch {
  start(): void;
  stop(): Promise<void>;
  /** Looks once. @throws StorageError */
  look(signal: AbortSignal): Promise<void>;
}

const LOOK_MS = 30_000;
const PAGE = 100;
/** How long the backlogs of keys are counted in one look, ms. The next one goes on where it ended. */
const COUNT_MS = 1_000;

export function createNoticeWatch(deps: {
  readonly storage: Pick<Storage, "range" | "commit"> & { readonly queue: Pick<Storage["queue"], "depth" | "pending"> };
  readonly subscriptionCache: SubscriptionCache;
  readonly notices: Notices;
  readonly bounds: PendingBounds;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
}): NoticeWatch {
  const { storage, subscriptionCache, notices, bounds, clock, log } = deps;
  const stopping = new AbortController();
  let loop: Promise<void> | undefined;
  /** The key after which the count goes on. */
  let countedTo: string | undefined;

  /** Does the work on one row. One that needs a damaged subscription fails alone, so that the others get their turn. */
  async function passingOver(key: string, work: Promise<void>): Promise<void> {
    await unlessUnreadable(work, (error) => {
      log.warn("a look for notices passed over what it cannot read", { key, error: String(error) });
    });
  }

  async function overlaps(signal: AbortSignal): Promise<void> {
    for await (const row of everyEntry(storage, OVERLAP.start)) {
      signal.throwIfAborted();
      if (OVERLAP.id(row.key).at > clock.now()) return;
      await passingOver(row.key, overlap(row));
    }
  }

  /** Reports one, and deletes its row in the same commit: a crash repeats it, and another node does not. */
  async function overlap({ key, value }: Entry): Promise<void> {
    const { keyId, subscriptionId } = OVERLAP.id(key);
    const sub = await subscriptionCache.get(keyId, subscriptionId);
    const endsAt = Number(value);
    const done = { op: "delete", key, if: value } as const;
    const holds = isLive(sub) && endsAt > clock.now() && sub.secrets.some(({ expiresAt }) => expiresAt === endsAt);
    if (!holds) return void (await tryCommit(storage, [done]));
    await notices.commitWith([done], secretExpiring(sub, endsAt)).catch((error: unknown) => {
      if (!(error instanceof ConflictError)) throw error;
    });
  }

  async function backlog(signal: AbortSignal): Promise<void> {
    const { pending, pendingPerKey } = bounds;
    if (pending === 0 && pendingPerKey === 0) return;
    const { waiting, leased } = await storage.queue.depth();
    const all = waiting + leased;
    if (pending > 0 && all > pending) notices.tell(pendingHigh(undefined, all, pending));
    // No key has more than all of them together.
    if (pendingPerKey > 0 && all > pendingPerKey) await backlogOfKeys(pendingPerKey, signal);
  }

  async function backlogOfKeys(bound: number, signal: AbortSignal): Promise<void> {
    const until = clock.monotonic() + COUNT_MS;
    do {
      const page = await storage.range(API_KEY.start, { after: countedTo, limit: PAGE });
      for (const { key } of page) {
        signal.throwIfAborted();
        countedTo = key;
        const keyId = API_KEY.id(key).keyId;
        if (keyId !== OPERATOR_KEY) await passingOver(key, backlogOfKey(keyId, bound));
      }
      if (page.length < PAGE) {
        countedTo = undefined;
        return;
      }
    } while (clock.monotonic() < until);
  }

  async function backlogOfKey(keyId: string, bound: number): Promise<void> {
    const subscriptions = await subscriptionCache.of(keyId);
    const pending = await storage.queue.pending(subscriptions.map(({ id }) => id));
    if (pending > bound) notices.tell(pendingHigh(keyId, pending, bound));
  }

  async function look(signal: AbortSignal): Promise<void> {
    await overlaps(signal);
    await backlog(signal);
    await notices.flush();
  }

  async function run(): Promise<void> {
    for (;;) {
      await look(stopping.signal).catch((error: unknown) => {
        if (!stopping.signal.aborted) log.warn("a look for notices failed", { error: String(error) });
      });
      await clock.sleep(clock.now() + LOOK_MS, stopping.signal);
    }
  }

  return {
    look,
    start() {
      loop ??= run().catch(() => undefined);
    },
    async stop() {
      stopping.abort(new Error("stopping"));
      await loop;
      await notices.settled();
    },
  };
}
