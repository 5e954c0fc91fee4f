/** Back-pressure for one API key: when its publishers have to wait, because too much of that key is pending. */
import { BoundedMap } from "../model/bounded-map.ts";
import { Problem } from "../model/problem.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Queue } from "../ports/storage.ts";

/** How old a look at a key's backlog may be once it may have passed its limit, ms, and where other nodes add to it. */
const LOOK_MS = 250;
const SHARED_LOOK_MS = 1_000;
/** A look is made again after so many times of what it took: counting a long backlog must not become the work. */
const LOOK_SHARE = 20;
const REOPEN_AT = 0.8;
const RETRY_AFTER_S = 2;
/** Keys whose count is remembered. */
const KEYS = 10_000;

interface Count {
  /** As it was looked at last, and what this node has added since. */
  pending: number;
  /** Monotonic ms; when it may be looked at again, and when it must be. */
  again: number;
  stale: number;
  closed: boolean;
  looking: Promise<void> | undefined;
}

export interface KeyBackpressure {
  /** Looks at the backlog of keys where that may change what they are told. Never rejects. */
  look(keys: Iterable<string>): Promise<unknown> | undefined;
  /** @throws Problem PROVIDER_BACKPRESSURE when too much of one of them is pending */
  admit(keys: Iterable<string>): void;
  /** So many deliveries were added. */
  added(keyId: string, count?: number): void;
}

export function createKeyBackpressure(deps: {
  readonly queue: Pick<Queue, "pending">;
  readonly directory: { of(keyId: string): MaybePromise<readonly Pick<Subscription, "id">[]> };
  readonly clock: Pick<Clock, "monotonic">;
  /** Deliveries of a key that are pending and that the queue does not know of yet. */
  readonly unwritten?: (keyId: string) => Promise<number>;
  /** Deliveries of one key that may be pending. */
  readonly most: number;
  /** Other nodes add to the same backlog. */
  readonly shared: boolean;
}): KeyBackpressure {
  const { queue, directory, clock, most, shared, unwritten } = deps;
  const counts = new BoundedMap<Count>(KEYS, ({ looking }) => looking === undefined);

  const countOf = (keyId: string): Count =>
    counts.get(keyId) ?? counts.add(keyId, { pending: 0, again: 0, stale: 0, closed: false, looking: undefined });

  function judge(count: Count): void {
    count.closed = count.closed ? count.pending > most * REOPEN_AT : count.pending > most;
  }

  async function read(keyId: string, count: Count): Promise<void> {
    const began = clock.monotonic();
    try {
      const subscriptions = await directory.of(keyId);
      const known = await queue.pending(subscriptions.map(({ id }) => id));
      count.pending = known + ((await unwritten?.(keyId)) ?? 0);
      judge(count);
    } catch {
      // Whether the storage can take anything is for the commit to say.
    } finally {
      const now = clock.monotonic();
      count.again = now + Math.max(LOOK_MS, (now - began) * LOOK_SHARE);
      count.stale = shared ? now + SHARED_LOOK_MS : Number.POSITIVE_INFINITY;
      count.looking = undefined;
    }
  }

  /** What nobody else adds to is looked at again only when it may have passed the limit by what was added here. */
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
