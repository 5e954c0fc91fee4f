/** Settling a lease so that its result is stored once, whatever became of an earlier try to store it. */
import type { Due } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import { deliveryKey } from "../model/keys.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Change, Lease, Storage } from "../ports/storage.ts";
import { unlessDamaged } from "../records/damage.ts";
import { persist, persistAfter } from "../records/persist.ts";
import { decodeDelivery, dueOf } from "../records/delivery-records.ts";

export interface SettleDeps {
  readonly storage: Pick<Storage, "getItem" | "queue">;
  readonly clock: Clock;
  readonly log: Log;
}
/** What becomes of the lease; see `Queue.settle`. */
type Then = { readonly next?: Due; readonly keep?: Due } | undefined;
type Settling = [lease: Lease, changes: readonly Change[], then: Then, signal: AbortSignal, deps: SettleDeps];

/**
 * As `Queue.settle`, tried again until the storage takes it, or the signal aborts.
 * @throws ConflictError when the line is somebody else's now; LeaseLostError; the signal's reason
 */
export function settle(...args: Settling): Promise<void> {
  const [lease, changes, then, , deps] = args;
  return deps.storage.queue.settle(lease, changes, then).catch((error: unknown) => settleAfter(error, ...args));
}

/** Hardly ever: the first try failed. */
async function settleAfter(first: unknown, ...args: Settling): Promise<void> {
  const [lease, changes, then, signal, deps] = args;
  try {
    await persistAfter(first, () => deps.storage.queue.settle(lease, changes, then), signal, deps);
  } catch (error) {
    if (!(error instanceof ConflictError) || !(await isOurs(...args))) throw error;
  }
}

/**
 * The line is not as it was claimed. Somebody moved the delivery (a replay), and has it now; or it was we: a commit
 * whose end the storage could not tell had happened. Either way the queue is told of the line as it is.
 */
async function isOurs(...[lease, changes, then, signal, deps]: Settling): Promise<boolean> {
  const key = deliveryKey(lease.subscriptionId, lease.ordinal);
  const text = await persist(() => deps.storage.getItem(key), signal, deps);
  const ours = changes.some((change) => change.op === "put" && change.key === key && change.value === text);
  await end(text, ours ? then : { next: lineOf(text, key) }, lease, signal, deps);
  return ours;
}

/** Ends a lease whose line somebody else has moved, and tells the queue of the line as it is. */
export async function handOver(lease: Lease, signal: AbortSignal, deps: SettleDeps): Promise<void> {
  const key = deliveryKey(lease.subscriptionId, lease.ordinal);
  const text = await persist(() => deps.storage.getItem(key), signal, deps);
  await end(text, { next: lineOf(text, key) }, lease, signal, deps);
}

async function end(
  text: string | undefined,
  then: Then,
  lease: Lease,
  signal: AbortSignal,
  deps: SettleDeps,
): Promise<void> {
  const key = deliveryKey(lease.subscriptionId, lease.ordinal);
  const asRead: Change = { op: "check", key, if: text ?? null };
  await persist(() => deps.storage.queue.settle(lease, [asRead], then), signal, deps);
}

/** The due line that a record tells of; a damaged one tells of none, and the next sweep finds what there is. */
function lineOf(text: string | undefined, key: string): Due | undefined {
  const now = text === undefined ? undefined : unlessDamaged(() => decodeDelivery(text, key));
  return now?.nextAttemptAt === undefined ? undefined : dueOf(now, now.nextAttemptAt);
}
