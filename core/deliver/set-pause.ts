/** Sets the pause that a receiver has asked for with its answer. */
import type { DeliveryDeps } from "./dependencies.ts";

type PauseDeps = Pick<DeliveryDeps, "retryAfter" | "storage" | "clock" | "log">;

/**
 * Pauses the subscription, ms. The result and its next time are stored already, so a failure here must not undo them.
 * This node still observes the pause, and sets it again when it turns the next delivery away.
 * @param answeredAt monotonic ms: the receiver asked when it answered, and storing the result may have taken long
 */
export async function setPause(
  subscriptionId: string,
  asked: number,
  answeredAt: number,
  { retryAfter, storage, clock, log }: PauseDeps,
): Promise<void> {
  const ms = Math.max(1, Math.ceil(asked - (clock.monotonic() - answeredAt)));
  retryAfter?.(subscriptionId, ms);
  try {
    await storage.queue.pause(subscriptionId, ms);
  } catch (error) {
    log.warn("a pause was not set", { subscriptionId, error: String(error) });
  }
}
