/** Settling a lease so that its result is stored once, whatever became of an earlier try to store it. */
import type { Due } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import { deliveryKey } from "../model/keys.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Change, Lease, Storage } from "../ports/storage.ts";
import { persist } from "./persist.ts";
import { decodeDelivery, dueOf } from "./records.ts";

/** As `Queue.settle`, tried again until the storage takes it. @throws ConflictError when the line is somebody else's now */
export type Settle = (changes: readonly Change[], then?: { readonly next?: Due; readonly keep?: Due }) => Promise<void>;

export function createSettle(
  lease: Lease,
  deps: {
    readonly storage: Pick<Storage, "getItem" | "queue">;
    readonly clock: Clock;
    readonly signal: AbortSignal;
    readonly log: Log;
  },
): Settle {
  const { storage } = deps;
  const key = deliveryKey(lease.subscriptionId, lease.ordinal);
  const store: Settle = (changes, then) => persist(() => storage.queue.settle(lease, changes, then), deps);

  /**
   * The line is not as it was claimed. Somebody moved the delivery (a replay), and has it now; or it was we: a commit
   * whose end the storage could not tell had happened. Either way the queue is told of the line as it is.
   */
  async function isOurs(changes: readonly Change[], then: Parameters<Settle>[1]): Promise<boolean> {
    const text = await persist(() => storage.getItem(key), deps);
    const written = changes.find((change) => change.op === "put" && change.key === key);
    const ours = written?.op === "put" && written.value === text;
    const now = text === undefined ? undefined : decodeDelivery(text);
    const next = now?.nextAttemptAt === undefined ? undefined : dueOf(now, now.nextAttemptAt);
    const asRead: Change = { op: "check", key, if: text ?? null };
    await store([asRead], ours ? then : { next });
    return ours;
  }

  return async (changes, then) => {
    try {
      await store(changes, then);
    } catch (error) {
      if (!(error instanceof ConflictError) || !(await isOurs(changes, then))) throw error;
    }
  };
}
