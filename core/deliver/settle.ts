/**
 * Stores the result of a delivery once, even if an earlier try had an unknown result. The end of one that goes in order
 * gives the next its turn in the same commit, or holds the others up; a failure brings its operational event along.
 */
import type { Delivery, Due } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import type { RelayEvent } from "../model/event.ts";
import { unlessDamaged } from "../model/kind.ts";
import { DELIVERY } from "../model/schema.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Change } from "../ports/storage.ts";
import { dueOf, endedChanges } from "../records/delivery-records.ts";
import { holdUp } from "../records/held.ts";
import { persist, persistAfter } from "../records/persist.ts";
import { isSequenceConflict, passOn, type OrderedDue } from "../records/sequences.ts";
import type { Run } from "./run.ts";

/** Says what happens to the lease; see `Queue.settle`. */
type Then = { readonly next?: Due; readonly keep?: Due };

/**
 * Like `Queue.settle`, repeated until the storage takes it or the signal aborts.
 * @throws ConflictError when another holder changed the line; LeaseLostError; the signal's reason
 */
export async function settle(run: Run, changes: readonly Change[], then?: Then): Promise<void> {
  try {
    await run.deps.storage.queue.settle(run.lease, changes, then);
  } catch (error) {
    await settleAfter(error, run, changes, then);
  }
}

/** Runs only after the first try failed, which is rare. */
async function settleAfter(first: unknown, run: Run, changes: readonly Change[], then?: Then): Promise<void> {
  const { lease, signal, deps } = run;
  try {
    await persistAfter(first, () => deps.storage.queue.settle(lease, changes, then), signal, deps);
  } catch (error) {
    // About a sequence only: the line is as it was claimed, so the commit did not happen.
    if (!(error instanceof ConflictError) || isSequenceConflict(error)) throw error;
    if (!(await settleMoved(run, changes, then))) throw error;
  }
}

/**
 * Ends a lease whose line is not as it was claimed. Either a replay moved the delivery and owns it now, or an earlier
 * commit of ours with an unknown result had succeeded. In both cases the queue gets the current line.
 * @returns whether it was ours
 */
export async function settleMoved(run: Run, changes: readonly Change[] = [], then?: Then): Promise<boolean> {
  const { lease, signal, deps } = run;
  const key = DELIVERY.key(lease);
  const text = await persist(() => deps.storage.getItem(key), signal, deps);
  const ours = changes.some((change) => change.op === "put" && change.key === key && change.value === text);
  const asRead: Change = { op: "check", key, if: text ?? null };
  const next = ours ? then : { next: lineOf(text, key) };
  await persist(() => deps.storage.queue.settle(lease, [asRead], next), signal, deps);
  return ours;
}

/** Returns the due line that a record implies; `undefined` for a damaged one, whose line the next sweep finds. */
function lineOf(text: string | undefined, key: string): Due | undefined {
  const now = unlessDamaged(DELIVERY.read(text, key));
  return now?.nextAttemptAt === undefined ? undefined : dueOf(now, now.nextAttemptAt);
}

/**
 * Like `settle`, for a delivery that has ended.
 * @param delivery as it is stored; absent when there is nothing to store
 * @param failedFor its subscription, when it failed: `onFailed` says what that does to the others
 * @throws as `settle`
 */
export function settleEnd(
  run: Run,
  changes: readonly Change[],
  delivery?: Delivery,
  failedFor?: Pick<Subscription, "onFailed">,
): Promise<void> {
  const order = run.line.order ?? delivery?.order;
  if (order === undefined) return settle(run, changes);
  // A damaged line does not say whose it is.
  const line: OrderedDue = { ...run.line, keyId: delivery?.keyId ?? run.line.keyId, order };
  if (failedFor?.onFailed !== "hold" || delivery === undefined) return settleTurn(run, changes, line);
  const { keyId, subscriptionId } = line;
  const who = { keyId, subscriptionId, eventId: delivery.eventId };
  run.deps.log.warn("a failed delivery holds up those behind it", who);
  return settle(run, [...changes, holdUp(delivery, order)]);
}

async function settleTurn(run: Run, changes: readonly Change[], line: OrderedDue): Promise<void> {
  const { signal, deps } = run;
  for (;;) {
    const { changes: more, next } = await persist(() => passOn(deps.storage, line), signal, deps);
    try {
      await settle(run, [...changes, ...more]);
    } catch (error) {
      // Nothing was stored: somebody entered, or a replay changed what waits. Each time another has come further.
      if (!isSequenceConflict(error)) throw error;
      signal.throwIfAborted();
      continue;
    }
    if (next !== undefined) deps.storage.queue.add([next]);
    return;
  }
}

/**
 * Stores a failure together with its operational event. Building that event needs reads; if they fail, the result is
 * stored alone, since losing it would repeat the attempt, and the event follows in a commit of its own.
 */
export async function settleFailed(run: Run, failed: Delivery, sub: Subscription, event: RelayEvent): Promise<void> {
  const { log } = run.deps;
  const about = run.deps.failureEvent(sub, event, failed);
  let missed = false;
  const made = await about?.prepare().catch((error: unknown) => {
    missed = true;
    log.warn("a failure is stored before its operational event", { subscriptionId: sub.id, error: String(error) });
    return undefined;
  });
  await settleEnd(run, [...endedChanges(run.line, failed), ...(made?.changes ?? [])], failed, sub);
  made?.committed();
  // In a commit of its own: a notice that another node reports at the same time must not undo the result.
  about?.notice();
  if (about === undefined || !missed) return;
  await persist(about.late, run.signal, run.deps).catch((error: unknown) =>
    log.error("an operational event is lost", { subscriptionId: sub.id, error: String(error) }),
  );
}
