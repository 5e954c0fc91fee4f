/** Refuses publishing on one API key while too many deliveries of that key are pending. */
import { BoundedMap } from "../lib/bounded-map.ts";
import { Problem } from "../model/problem.ts";
import type { MaybePromise } from "../lib/maybe-promise.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Queue } from "../ports/storage.ts";

/** How old a reading of a key's backlog may be, ms, once it may have passed its limit, or where other nodes add to it. */
const LOOK_MS = 250;
const SHARED_LOOK_MS = 1_000;
/**
 * A reading is repeated only after this many times its own duration, so that counting a long backlog does not become
 * the work.
 */
const LOOK_SHARE = 20;
const REOPEN_AT = 0.8;
const RETRY_AFTER_S = 2;
/** Keys whose count is remembered. */
const KEYS = 10_000;

interface Count {
  /** The count of the last reading, plus what this node has added since. */
  pending: number;
  /** Monotonic ms: when the backlog may be read again, and when it must be. */
  again: number;
  stale: number;
  closed: boolean;
  looking: Promise<void> | undefined;
}

interface KeyBackpressure {
  /** Reads the backlog of keys where it may change the decision. Never rejects. */
  look(keys: Iterable<string>): Promise<unknown> | undefined;
  /** @throws Problem PROVIDER_BACKPRESSURE when one of them has too many pending deliveries */
  admit(keys: Iterable<string>): void;
  /** Counts deliveries that were just added. */
  added(keyId: string, count?: number): void;
}

export function createKeyBackpressure(deps: {
  readonly queue: Pick<Queue, "pending">;
  readonly subscriptionCache: { of(keyId: string): MaybePromise<readonly Pick<Subscription, "id">[]> };
  readonly clock: Pick<Clock, "monotonic">;
  /** Counts pending deliveries of a key that the queue does not hold yet. */
  readonly unwritten?: (keyId: string) => Promise<number>;
  /** Most pending deliveries of one key. */
  readonly most: number;
  /** Whether other nodes add to the same backlog. */
  readonly shared: boolean;
}): KeyBackpressure {
  const { queue, subscriptionCache, clock, most, shared, unwritten } = deps;
  const counts = new BoundedMap<Count>(KEYS, ({ looking }) => looking === undefined);

  const countOf = (keyId: string): Count =>
    counts.get(keyId) ?? counts.add(keyId, { pending: 0, again: 0, stale: 0, closed: false, looking: undefined });

  function judge(count: Count): void {
    count.closed = count.closed ? count.pending > most * REOPEN_AT : count.pending > most;
  }

  async function read(keyId: string, count: Count): Promise<void> {
    const began = clock.monotonic();
    try {
      const subscriptions = await subscriptionCache.of(keyId);
      const known = await queue.pending(subscriptions.map(({ id }) => id));
      count.pending = known + ((await unwritten?.(keyId)) ?? 0);
      judge(count);
    } catch {
      // Whether the storage can take anything, the commit itself will show.
    } finally {
      const now = clock.monotonic();
      count.again = now + Math.max(LOOK_MS, (now - began) * LOOK_SHARE);
      count.stale = shared ? now + SHARED_LOOK_MS : Number.POSITIVE_INFINITY;
      count.looking = undefined;
    }
  }

  /** A backlog that no other node adds to is read again only when what was added here may have passed the limit. */
  function lookAt(keyId: string): Promise<void> | undefined {
    const count = countOf(keyId);
    if (count.looking !== undefined) return count.looking;
    const now = clock.monotonic();
    const matters = count.closed || count.pending > most || now >= count.stale;
    return matters && now >= count.again ? (count.looking = read(keyId, count)) : undefined;
  }

  return {
    look(keys) {
      const looks: Promise<void>[] = [];
      for (const keyId of keys) {
        const look = lookAt(keyId);
        if (look !== undefined) looks.push(look);
      }
      return looks.length === 0 ? undefined : Promise.all(looks);
    },
    admit(keys) {
      for (const keyId of keys) {
        if (!countOf(keyId).closed) continue;
        throw new Problem(
          "PROVIDER_BACKPRESSURE",
          `Too many deliveries of API key ${keyId} are pending. Publish again later.`,
          { retryAfter: RETRY_AFTER_S },
        );
      }
    },
    added(keyId, more = 1) {
      const count = counts.get(keyId);
      if (count === undefined) return;
      count.pending += more;
      if (!count.closed) judge(count);
    },
  };
}
