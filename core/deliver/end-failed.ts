/** Stores the end of a failed delivery, and its operational event. */
import type { Delivery, Due } from "../model/delivery.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Lease } from "../ports/storage.ts";
import type { DeliveryDeps } from "./dependencies.ts";
import type { CachedEvent } from "./event-cache.ts";
import type { Operational } from "../publish/accept.ts";
import { persist } from "../records/persist.ts";
import { endedChanges } from "../records/delivery-records.ts";
import { settleEnd } from "./end-turn.ts";

/**
 * Stores a failure together with its operational event. Building that event needs reads; if they fail, the result is
 * stored alone, since losing it would repeat the attempt, and the event follows in a commit of its own.
 */
export async function endFailed(
  { lease, line }: { readonly lease: Lease; readonly line: Due },
  { sub, loaded, failed }: { readonly sub: Subscription; readonly loaded: CachedEvent; readonly failed: Delivery },
  signal: AbortSignal,
  deps: DeliveryDeps,
): Promise<void> {
  const { failureEvent, clock, log } = deps;
  let event: Operational | undefined;
  let missed = false;
  try {
    event = await failureEvent.of(sub, loaded, failed);
  } catch (error) {
    missed = true;
    log.warn("a failure is stored before its operational event", { subscriptionId: sub.id, error: String(error) });
  }
  const changes = [...endedChanges(line, failed), ...(event?.changes ?? [])];
  await settleEnd({ lease, line, failedFor: sub, delivery: failed }, changes, signal, deps);
  event?.committed();
  // In a commit of its own: a notice that another node reports at the same time must not undo the result.
  failureEvent.notice(sub, loaded, failed);
  if (!missed) return;
  await persist(() => failureEvent.late(sub, loaded, failed), signal, { clock, log }).catch((error: unknown) =>
    log.error("an operational event is lost", { subscriptionId: sub.id, error: String(error) }),
  );
}
