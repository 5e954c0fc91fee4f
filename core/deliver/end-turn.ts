/** Settles the end of a delivery. If it went in order, the same commit gives the next its turn, or holds the others up. */
import type { Delivery, Due } from "../model/delivery.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Change, Lease, Storage } from "../ports/storage.ts";
import { persist } from "../records/persist.ts";
import { holdUp } from "../records/held.ts";
import { isSequenceConflict, passOn, type OrderedDue } from "../records/sequences.ts";
import { settle, type SettleDeps } from "./settle.ts";

interface EndDeps extends SettleDeps {
  readonly storage: SettleDeps["storage"] & Pick<Storage, "getMany" | "range">;
}

/** A delivery that has ended, with its lease and its line in the due index. */
interface Ending {
  readonly lease: Lease;
  readonly line: Due;
  /** Its subscription, when it failed: `onFailed` says what that does to the others. */
  readonly failedFor?: Pick<Subscription, "onFailed">;
  /** As it is stored. Absent when there is nothing to store. */
  readonly delivery?: Delivery;
}

/**
 * Like `settle` without a next time.
 * @throws as `settle`
 */
export function settleEnd(
  ending: Ending,
  changes: readonly Change[],
  signal: AbortSignal,
  deps: EndDeps,
): Promise<void> {
  const order = ending.line.order ?? ending.delivery?.order;
  if (order === undefined) return settle(ending.lease, changes, undefined, signal, deps);
  // A damaged line does not say whose it is.
  const keyId = ending.delivery?.keyId ?? ending.line.keyId;
  return settleTurn(ending, { ...ending.line, keyId, order }, changes, signal, deps);
}

async function settleTurn(
  { lease, failedFor, delivery }: Ending,
  line: OrderedDue,
  changes: readonly Change[],
  signal: AbortSignal,
  deps: EndDeps,
): Promise<void> {
  if (failedFor?.onFailed === "hold" && delivery !== undefined) {
    deps.log.warn("a failed delivery holds up those behind it", {
      keyId: line.keyId,
      subscriptionId: line.subscriptionId,
      eventId: delivery.eventId,
    });
    return await settle(lease, [...changes, holdUp(delivery, line.order)], undefined, signal, deps);
  }
  for (;;) {
    const { changes: more, next } = await persist(() => passOn(deps.storage, line), signal, deps);
    try {
      await settle(lease, [...changes, ...more], undefined, signal, deps);
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
