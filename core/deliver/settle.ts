/** Settles a lease so that its result is stored once, even if an earlier try had an unknown result. */
import type { Due } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import { unlessDamaged } from "../model/kind.ts";
import { DELIVERY } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Change, Lease, Storage } from "../ports/storage.ts";
import { persist, persistAfter } from "../records/persist.ts";
import { dueOf } from "../records/delivery-records.ts";
import { isSequenceConflict } from "../records/sequences.ts";

export interface SettleDeps {
  readonly storage: Pick<Storage, "getItem" | "queue">;
  readonly clock: Clock;
  readonly log: Log;
}
/** What happens to the lease; see `Queue.settle`. */
type Then = { readonly next?: Due; readonly keep?: Due } | undefined;
type Settling = [lease: Lease, changes: readonly Change[], then: Then, signal: AbortSignal, deps: SettleDeps];

/**
 * Like `Queue.settle`, repeated until the storage takes it or the signal aborts.
 * @throws ConflictError when another holder changed the line; LeaseLostError; the signal's reason
 */
export async function settle(...args: Settling): Promise<void> {
  const [lease, changes, then, , deps] = args;
  try {
    await deps.storage.queue.settle(lease, changes, then);
  } catch (error) {
    await settleAfter(error, ...args);
  }
}

/** Runs only after the first try failed, which is rare. */
async function settleAfter(first: unknown, ...args: Settling): Promise<void> {
  const [lease, changes, then, signal, deps] = args;
  try {
    await persistAfter(first, () => deps.storage.queue.settle(lease, changes, then), signal, deps);
  } catch (error) {
    // About a sequence only: the line is as it was claimed, so the commit did not happen.
    if (!(error instanceof ConflictError) || isSequenceConflict(error) || !(await isOurs(...args))) throw error;
  }
}

/**
 * The line is not as it was claimed. Either a replay moved the delivery and owns it now, or an earlier commit of ours
 * with an unknown result had succeeded. In both cases the queue gets the current line.
 */
async function isOurs(...[lease, changes, then, signal, deps]: Settling): Promise<boolean> {
  const key = DELIVERY.key(lease);
  const text = await persist(() => deps.storage.getItem(key), signal, deps);
  const ours = changes.some((change) => change.op === "put" && change.key === key && change.value === text);
  const asRead: Change = { op: "check", key, if: text ?? null };
  const next = ours ? then : { next: lineOf(text, key) };
  await persist(() => deps.storage.queue.settle(lease, [asRead], next), signal, deps);
  return ours;
}

/** Ends a lease whose line was moved by somebody else, and gives the queue the current line. */
export const handOver = (lease: Lease, signal: AbortSignal, deps: SettleDeps): Promise<boolean> =>
  isOurs(lease, [], undefined, signal, deps);

/** Returns the due line that a record implies; `undefined` for a damaged one, whose line the next sweep finds. */
function lineOf(text: string | undefined, key: string): Due | undefined {
  const now = unlessDamaged(DELIVERY.read(text, key));
  return now?.nextAttemptAt === undefined ? undefined : dueOf(now, now.nextAttemptAt);
}
