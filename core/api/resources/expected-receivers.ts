/** Prepares receivers for a replay by hand: refuses it while they are paused, and lets the circuit breaker try them at once. */
import { Problem } from "../../model/problem.ts";

export interface Receivers {
  /** The time that is left of a receiver's `Retry-After`, ms. */
  readonly pausedMs?: ((subscriptionId: string) => number) | undefined;
  /** Lets the next attempt to each of them through its circuit breaker: a replay by hand is the probe. */
  readonly probe?: ((subscriptionIds: readonly string[]) => Promise<void>) | undefined;
}

const leftMs = ({ pausedMs }: Receivers, id: string): number => pausedMs?.(id) ?? 0;

/** @throws Problem PROVIDER_BACKPRESSURE when all of them are paused, until the first one is back */
export function refuseResting(receivers: Receivers, subscriptionIds: readonly string[]): void {
  const left = subscriptionIds.map((id) => leftMs(receivers, id));
  if (left.length === 0 || left.some((ms) => ms <= 0)) return;
  const retryAfter = Math.max(1, Math.ceil(Math.min(...left) / 1_000));
  throw new Problem("PROVIDER_BACKPRESSURE", "The receiver has asked for rest; come back later.", { retryAfter });
}

/** Receivers that asked for a pause are left alone. */
export async function probe(receivers: Receivers, subscriptionIds: readonly string[]): Promise<void> {
  await receivers.probe?.(subscriptionIds.filter((id) => leftMs(receivers, id) <= 0));
}
