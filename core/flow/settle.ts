/** Settling a lease so that its result is stored once, whatever became of an earlier try to store it. */
import type { Due } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import { deliveryKey } from "../model/keys.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Change, Lease, Storage } from "../ports/storage.ts";
import { persist } from "./persist.ts";
import { decodeDelivery, dueOf } from "./records.ts";

export interface SettleDeps {
  readonly storage: Pick<Storage, "getItem" | "queue">;
  readonly clock: Clock;
  readonly log: Log;
}
/** What becomes of the lease; see `Queue.settle`. */
type Then = { readonly next?: Due; readonly keep?: Due } | undefined;

/**
 * As `Queue.settle`, tried again until the storage takes it, or the signal aborts.
 * @throws ConflictError when the line is somebody else's now; LeaseLostError; the signal's reason
 */
export async function settle(
  lease: Lease,
  changes: readonly Change[],
  then: Then,
  signal: AbortSignal,
  deps: SettleDeps,
): Promise<void> {
  try {
    await persist(() => deps.storage.queue.settle(lease, changes, then), signal, deps);
  } catch (error) {
    if (!(error instanceof ConflictError) || !(await isOurs(lease, changes, then, signal, deps))) throw error;
  }
}

/**
 * The line is not as it was claimed. Somebody moved the delivery (a replay), and has it now; or it was we: a commit
 * whose end the storage could not tell had happened. Either way the queue is told of the line as it is.
 */
async function isOurs(...[lease, changes, then, signal, deps]: Parameters<typeof settle>): Promise<boolean> {
  const { storage } = deps;
  const key = deliveryKey(lease.subscriptionId, lease.ordinal);
  const text = await persist(() => storage.getItem(key), signal, deps);
  const ours = changes.some((change) => change.op === "put" && change.key === key && change.value === text);
  const now = text === undefined ? undefined : decodeDelivery(text);
  const next = now?.nextAttemptAt === undefined ? undefined : dueOf(now, now.nextAttemptAt);
  const asRead: Change = { op: "check", key, if: text ?? null };
  await persist(() => storage.queue.settle(lease, [asRead], ours ? then : { next }), signal, deps);
  return ours;
}
