/** Waits under a lease, as long as the subscription stays as it is: what waits in the queue can be ended at once. */
import type { Due } from "../model/delivery.ts";
import { subscriptionKey } from "../model/keys.ts";
import type { Clock } from "../ports/clock.ts";
import type { Storage } from "../ports/storage.ts";

/** @throws the reason why it ended early: the signal's, or that the subscription may have changed */
export async function sleepUnlessChanged(
  until: number,
  { keyId, subscriptionId }: Due,
  signal: AbortSignal,
  { clock, storage }: { readonly clock: Clock; readonly storage: Pick<Storage, "watch"> },
): Promise<void> {
  const changed = new AbortController();
  const own = subscriptionKey(keyId, subscriptionId);
  const unwatch = storage.watch((keys) => {
    if (keys.includes(own) || keys.includes("subscription:")) changed.abort();
  });
  try {
    await clock.sleep(until, AbortSignal.any([signal, changed.signal]));
  } finally {
    unwatch();
  }
}
